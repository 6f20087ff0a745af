#!/bin/sh
# From a bare Debian 12 or 13 machine to one on which the platform runs. ./demo, ./test and npm start call it first.
#
#   1 machine · 2 Debian packages · 3 system users · 4 npm packages, Node 24 among them · then, by that Node
#   (guest/image/src/main.ts): 5 VMM · 6 guest kernel · 7 base image · 8 jail · 9 helper · 10 vault server ·
#   11 guest agent
#
# Each step does only what is missing, and can be interrupted and run again. What is built lies in $SPACE_CACHE
# (default /var/cache/space) under digests of what it is made from, so another checkout finds it again.
set -eu
# What is built here is read by other users.
umask 022

ROOT=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
NODE=$ROOT/node_modules/.bin/node
PATH=$PATH:/usr/sbin:/sbin
SPACE_CACHE=${SPACE_CACHE:-/var/cache/space}
export PATH SPACE_CACHE

# How long another set-up may take.
LOCK_WAIT_S=1800

. "$ROOT/setup/say.sh"
. "$ROOT/setup/machine.sh"
. "$ROOT/setup/packages.sh"
. "$ROOT/setup/dependencies.sh"

# Who has the lock, as far as it can be seen: " (process 12, 13)".
lock_holders() {
  holders=$(fuser "$SPACE_CACHE/setup.lock" 2>/dev/null | tr -s ' \n' ' ' | sed 's/^ //; s/ $//; s/ /, /g') || holders=
  [ -z "$holders" ] || printf ' (process %s)' "$holders"
}

# One set-up at a time. The kernel drops the lock when the last process that holds it ends, however it ends.
take_lock() {
  as_root mkdir -p "$SPACE_CACHE"
  [ -e "$SPACE_CACHE/setup.lock" ] || as_root touch "$SPACE_CACHE/setup.lock" "$SPACE_CACHE/build.lock"
  exec 9<"$SPACE_CACHE/setup.lock"
  flock --nonblock 9 && return
  echo "Another set-up is running on this machine$(lock_holders): waiting for it, up to $((LOCK_WAIT_S / 60)) minutes." >&2
  flock --wait "$LOCK_WAIT_S" 9 || die "Another set-up has been running for over $((LOCK_WAIT_S / 60)) minutes." \
    'Two at once would build the same things.' "See what holds it (fuser -v '$SPACE_CACHE/setup.lock')."
}

# The builders take a lock of their own: sudo closes the one above, and they may outlive this script.
build_assets() {
  SPACE_CARGO=$CARGO
  export SPACE_CARGO
  as_root flock "$SPACE_CACHE/build.lock" "$NODE" "$ROOT/guest/image/src/main.ts"
}

begun=$(now_ms)
require() {
  shift
  "$@"
}
each_requirement require
[ -d "$SPACE_CACHE/assets" ] || say_step 1 Machine "Debian $DEBIAN, $free MiB free in $place"
take_lock
find_wanted
install_packages
[ -n "$CARGO" ] || find_cargo || die 'Rust is installed, but cargo is not found.' 'It builds the guest agent.' \
  'Check that rustc --version says 1.85 or newer, then run this again.'
make_users
install_dependencies
build_assets
took=$(($(now_ms) - begun))
echo "Set-up: everything is there ($((took / 1000)).$((took % 1000 / 100)) s)" >&2
