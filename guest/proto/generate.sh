#!/bin/sh
# Regenerates the TypeScript of the guest contract into the folder given, or into gen/. Needs protoc (Debian:
# protobuf-compiler); its plugin comes with npm install. The output is erasable: Node runs it as it is.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/gen}
plugin=$here/../../node_modules/.bin/protoc-gen-es
command -v protoc >/dev/null || { echo "generate.sh: protoc is missing; install protobuf-compiler" >&2; exit 1; }
[ -x "$plugin" ] || { echo "generate.sh: $plugin is missing; run npm install" >&2; exit 1; }

mkdir -p "$out"
rm -rf "${out:?}/space"
cd "$here"
protoc --plugin="protoc-gen-es=$plugin" --es_out="$out" \
  --es_opt=target=ts,import_extension=ts,erasable_syntax=true \
  space/guest/v1/*.proto
