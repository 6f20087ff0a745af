# Sourced by bootstrap.sh and doctor.sh: is this a machine that the platform can run on? Each check looks at what it is
# handed, so that a test can hand it something else.

# About what a first build needs at its peak.
NEEDED_MIB=6144

# each_requirement ACT: the one list of what a machine must have before anything can be installed; calls ACT TITLE CHECK….
each_requirement() {
  "$1" 'Debian 12 or 13, amd64' check_os /etc/os-release "$(dpkg --print-architecture 2>/dev/null || uname -m)"
  "$1" 'root, or sudo' check_root "$(id -u)"
  # What is built already needs no more space.
  [ -d "$SPACE_CACHE/assets" ] || "$1" 'disk space' check_disk "$SPACE_CACHE" "$NEEDED_MIB"
  "$1" 'Btrfs' check_btrfs /proc/filesystems
  "$1" 'loop devices' check_device /dev/loop-control 'modprobe loop'
}

# check_os OS_RELEASE_FILE ARCHITECTURE; sets DEBIAN to 12 or 13.
check_os() {
  id=$(sed -n 's/^ID=//p' "$1" 2>/dev/null | tr -d '"')
  version=$(sed -n 's/^VERSION_ID=//p' "$1" 2>/dev/null | tr -d '"')
  case "$id-$version" in
  debian-12 | debian-13) DEBIAN=$version ;;
  *)
    die "This is ${id:-an unknown system} ${version:-}, not Debian 12 or 13." \
      'Packages are installed by name and version from Debian, and only these two releases are tested.' \
      'Use a machine, a VM or a container host with Debian 12 (bookworm) or 13 (trixie).'
    ;;
  esac
  [ "$2" = amd64 ] || die "This machine is $2, not amd64." \
    'The guest kernel and the VMM are built for amd64 only.' 'Use a 64-bit x86 machine.'
}

# check_root USER_ID: root, or sudo that works; sudo may ask for a password only where somebody can type it.
check_root() {
  [ "$1" = 0 ] && return
  why='Installing packages, building disk images and running microVMs need root.'
  command -v sudo >/dev/null 2>&1 || die 'You are not root, and there is no sudo.' "$why" \
    'Run this as root (su -), or as root: apt-get install sudo && adduser YOUR_NAME sudo, then log in again.'
  sudo -n true 2>/dev/null && return
  if [ -t 0 ] && sudo -v; then return; fi
  die 'You are not root, and sudo does not let you run commands.' "$why" \
    'Run this as root, or in a terminal as a user whom sudo knows (as root: adduser YOUR_NAME sudo).'
}

# check_disk FOLDER NEEDED_MIB: free space where FOLDER is or will be.
check_disk() {
  place=$1
  while [ ! -d "$place" ]; do place=$(dirname "$place"); done
  free=$(($(df -Pk "$place" | awk 'NR == 2 { print $4 }') / 1024))
  [ "$free" -ge "$2" ] || die "There are $free MiB free in $place, and about $2 MiB are needed." \
    'The VMM, the guest kernel and the base image are built and kept there.' \
    'Free some space, or set SPACE_CACHE to a folder on a larger disk.'
}

# check_btrfs FILESYSTEMS_FILE: the kernel's own, or a module of it that can be loaded.
check_btrfs() {
  grep -qw btrfs "$1" && return
  modprobe --dry-run btrfs 2>/dev/null && return
  die 'This kernel has no Btrfs.' 'Sandboxes, their disks and memory, live on it.' \
    "Use Debian's own kernel (apt-get install linux-image-amd64, then restart); in a container, that of its host counts."
}

# check_device PATH REMEDY
check_device() {
  [ -e "$1" ] && return
  die "There is no $1." 'The vault is a file that is mounted through a loop device, unless you give it a block device.' \
    "$2; in a container, it must be run with its devices (--privileged)."
}
