#!/bin/sh
# with-node.sh FILE [ARGUMENT…]: sets the machine up if needed, then runs FILE (relative to the checkout) with the
# Node of the lock file, as root, in this process's place. SPACE_* variables are kept.
set -eu

ROOT=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
PATH=$ROOT/node_modules/.bin:$PATH:/usr/sbin:/sbin
export PATH
. "$ROOT/setup/say.sh"

[ $# -gt 0 ] || die 'No program was named.' 'with-node.sh runs one.' 'setup/with-node.sh FILE [ARGUMENT…]'
"$ROOT/setup/bootstrap.sh"
cd "$ROOT"
program=$1
shift
# Calls that can block share the pool with file reads; a capture must find a thread.
UV_THREADPOOL_SIZE=16
export UV_THREADPOOL_SIZE
replace=exec as_root "$ROOT/node_modules/.bin/node" "$ROOT/$program" "$@"
