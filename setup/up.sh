#!/bin/sh
# `space up`: first what can be told at once (help, options that make no sense, a platform that runs already), for set-up takes
# minutes; then with-node.sh sets up, and serves in this process's place.
set -eu

ROOT=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
NODE=$ROOT/node_modules/.bin/node
DATA=${SPACE_DATA:-/var/lib/space}
. "$ROOT/setup/say.sh"
. "$ROOT/setup/running.sh"

# The text of its source: there may be no Node yet to print it.
help_text() {
  sed -n '/^export const USAGE = `/,/`;$/{s/^export const USAGE = `//;s/`;$//;p}' "$ROOT/apps/server/src/config.ts"
}

known=$(help_text | grep -oE -- '--[a-z-]+')
before=
for word in "$@"; do
  [ "$before" != --data ] || DATA=$word
  before=$word
  case $word in
  -h | --help)
    help_text
    exit
    ;;
  --data=*) DATA=${word#--data=} ;;
  esac
  case $word in
  --?*) printf '%s\n' "$known" | grep -qxF -- "${word%%=*}" || usage "space up: there is no option \"${word%%=*}\"." ;;
  esac
done

running=$(find_running "$DATA")
if [ -n "$running" ]; then
  printf 'SPACE runs here already: it serves %s (process %s, data folder %s).\n' "${running##* }" "${running%% *}" "$DATA" >&2
  printf '  Next: `space down` stops it, for a start with other options; --data names the folder of another one.\n' >&2
  exit 1
fi

# With a Node of an earlier set-up the values are looked at too. Where that cannot be done, the start does it.
if [ -x "$NODE" ]; then
  said=$(as_root "$NODE" "$ROOT/apps/server/src/check-options.ts" "$@" 2>&1) || [ $? -ne 2 ] || {
    printf '%s\n' "$said" >&2
    exit 2
  }
fi

exec "$ROOT/setup/with-node.sh" apps/server/src/main.ts "$@"
