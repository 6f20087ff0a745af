#!/bin/sh
# `space uninstall`: removes all that set-up and the platform have made on this machine, after asking.
set -eu

ROOT=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
PATH=$PATH:/usr/sbin:/sbin
SPACE_CACHE=${SPACE_CACHE:-/var/cache/space}
DATA=${SPACE_DATA:-/var/lib/space}
YES=
export PATH

. "$ROOT/setup/say.sh"
. "$ROOT/setup/packages.sh"
. "$ROOT/setup/running.sh"

while [ $# -gt 0 ]; do
  case "$1" in
  --yes) YES=1 ;;
  --data)
    [ $# -ge 2 ] || usage 'space uninstall: --data needs a folder.'
    DATA=$2
    shift
    ;;
  -h | --help)
    cat <<'HELP'
Usage: space uninstall [--yes] [--data DIR]

Removes from this machine every sandbox and snapshot, the database, the keys, the VMM, guest kernel and image, the users of the
platform, and its configuration; asks before, unless --yes is given. It stays: this checkout, and Debian packages, which others
may use by now (it names them). A database of your own and a block device of your own stay as they are.
HELP
    exit
    ;;
  *) usage "space uninstall: there is no option \"$1\"." ;;
  esac
  shift
done

# stop WHAT NEXT: nothing was removed, or no more will be.
stop() {
  printf 'space: %s\n  Next: %s\n' "$1" "$2" >&2
  exit 1
}

# Only what the platform made, and never a folder that is somebody's by mistake.
check_folder() {
  case "$1" in
  / | /bin* | /boot* | /dev* | /etc* | /home | /lib* | /proc* | /root | /sbin* | /sys* | /usr* | /var | /var/lib | /var/cache | /tmp | /var/tmp | /run | /srv | /opt | /mnt)
    stop "$1 is not a folder of the platform." 'Name the one that it keeps its data in with --data.' ;;
  /*) ;;
  *) stop "$1 is not an absolute path." 'Give --data a path that begins with a slash.' ;;
  esac
}

check_folder "$DATA"
check_folder "$SPACE_CACHE"
[ ! -e "$DATA" ] || [ -e "$DATA/vaults" ] || stop "$DATA does not look like a data folder of the platform." \
  'Name the one that it keeps its data in with --data.'
[ ! -e "$SPACE_CACHE" ] || [ -e "$SPACE_CACHE/setup.lock" ] || stop "$SPACE_CACHE does not look like the cache of set-up." \
  'Set SPACE_CACHE to the one that set-up used, or remove it yourself.'
CONFIG=${SPACE_CONFIG:-${XDG_CONFIG_HOME:-${HOME:-/root}/.config}/space/config.json}
# A client configuration that names another server is somebody's way to that server.
url=$(cat "$DATA/url" 2>/dev/null) || url=
if [ -e "$CONFIG" ] && { [ -z "$url" ] || ! grep -qF "\"$url\"" "$CONFIG"; }; then
  echo "$CONFIG stays: it does not name the platform of $DATA."
  CONFIG=
fi

echo 'This removes from this machine, for good:'
for path in "$DATA" "$SPACE_CACHE" ${CONFIG:+"$CONFIG"} /run/space; do
  [ ! -e "$path" ] || echo "  $path  ($(as_root du -sh "$path" 2>/dev/null | cut -f1))"
done
echo "  the system users $USERS"
[ -z "$(find_running "$DATA")" ] || echo 'The platform runs; it is stopped first.'
if [ -z "$YES" ]; then
  [ -t 0 ] || stop 'Nobody is there to be asked.' 'Give --yes.'
  printf 'Every sandbox and snapshot is lost. Type "remove" to go on: '
  read -r answer
  [ "$answer" = remove ] || stop 'Nothing was removed.' 'Run it again when you are sure.'
fi

[ -z "$(find_running "$DATA")" ] || "$ROOT/setup/down.sh" --data "$DATA" || true
if [ -n "$(find_running "$DATA")" ] || grep -q " $DATA/vaults/" /proc/self/mounts; then
  stop "Sandboxes still run on $DATA, so their vault cannot be removed." 'Run `space up`, then Ctrl-C, then this again.'
fi
as_root rm -rf --one-file-system "$DATA" "$SPACE_CACHE"
as_root rm -f /etc/postgresql-common/createcluster.d/space.conf
[ -z "$CONFIG" ] || rm -f "$CONFIG"
# Sockets of this boot, unless another platform of this machine uses them.
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\000' ' ' | grep -q '/run/space/' || as_root rm -rf --one-file-system /run/space
for user in $USERS; do
  getent passwd "$user" >/dev/null && as_root userdel "$user" 2>/dev/null
done || true
left=
for path in "$DATA" "$SPACE_CACHE" ${CONFIG:+"$CONFIG"}; do [ ! -e "$path" ] || left="$left $path"; done
[ -z "$left" ] || stop "Not everything could be removed:$left." 'Look at what holds it (fuser -vm), and run this again.'
echo 'It is removed. This checkout stays, and so do Debian packages: remove those that you do not need with apt-get autoremove.'
