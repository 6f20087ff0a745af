#!/bin/sh
# `space down`: stops the platform of this machine as Ctrl-C does, and returns when it is gone.
set -eu

DATA=${SPACE_DATA:-/var/lib/space}
ROOT=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$ROOT/setup/say.sh"
. "$ROOT/setup/running.sh"

while [ $# -gt 0 ]; do
  case "$1" in
  --data)
    [ $# -ge 2 ] || usage 'space down: --data needs a folder.'
    DATA=$2
    shift 2
    ;;
  -h | --help)
    cat <<'HELP'
Usage: space down [--data DIR]

Pauses every sandbox and stops the platform that keeps its data in DIR (SPACE_DATA, else /var/lib/space). All is kept; the
next use of a sandbox, after the next `space up`, wakes it. Pausing takes some seconds for each that runs.
HELP
    exit
    ;;
  *) usage "space down: there is no option \"$1\"." ;;
  esac
done

running=$(find_running "$DATA")
if [ -z "$running" ]; then
  echo "The platform does not run (data folder $DATA)."
  exit 0
fi
pid=${running%% *}
echo "Pausing every sandbox, and stopping process $pid."
as_root kill -INT "$pid"
while [ "$(find_running "$DATA")" = "$running" ]; do sleep 0.2; done
if grep -q " $DATA/vaults/" /proc/self/mounts; then
  echo 'It is stopped. Some sandboxes could not be paused and run on; the next `space up` takes them up.' >&2
  exit 1
fi
echo "Stopped. Everything is kept in $DATA."
