#!/bin/sh
# Regenerates ../gen from the .proto files here. Needs protoc (Debian: protobuf-compiler); its plugin comes with npm install.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../gen}
plugin=$here/../../../node_modules/.bin/protoc-gen-es
command -v protoc >/dev/null || { echo "generate.sh: protoc is missing; install protobuf-compiler" >&2; exit 1; }
[ -x "$plugin" ] || { echo "generate.sh: $plugin is missing; run npm install" >&2; exit 1; }

mkdir -p "$out"
cd "$here"
protoc --plugin="protoc-gen-es=$plugin" --es_out="$out" \
  --es_opt=target=ts,import_extension=ts,erasable_syntax=true \
  *.proto
