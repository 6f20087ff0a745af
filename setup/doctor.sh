#!/bin/sh
# `space doctor`: what this machine has and lacks for the platform, and the remedy of each. It changes nothing, and needs
# nothing to be set up. The requirements are those that set-up goes by (machine.sh, packages.sh).
set -eu

ROOT=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
NODE=$ROOT/node_modules/.bin/node
PATH=$PATH:/usr/sbin:/sbin
SPACE_CACHE=${SPACE_CACHE:-/var/cache/space}
DATA=${SPACE_DATA:-/var/lib/space}
JSON=
BAD=0
export PATH SPACE_CACHE

. "$ROOT/setup/say.sh"
. "$ROOT/setup/machine.sh"
. "$ROOT/setup/packages.sh"
. "$ROOT/setup/running.sh"

while [ $# -gt 0 ]; do
  case "$1" in
  --json) JSON=1 ;;
  --data)
    [ $# -ge 2 ] || usage 'space doctor: --data needs a folder.'
    DATA=$2
    shift
    ;;
  -h | --help)
    cat <<'HELP'
Usage: space doctor [--json] [--data DIR]

Looks at this machine: `ok`, `later` (set-up or the first use brings it), `note` (it works without, but less well) or
`missing` (it cannot work so), each with what to do. The exit code is 1 when something is missing. It changes nothing.
HELP
    exit
    ;;
  *) usage "space doctor: there is no option \"$1\"." ;;
  esac
  shift
done

quoted() { printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g; s/.*/"&"/'; }

# row STATE TITLE DETAIL REMEDY
row() {
  [ "$1" != missing ] || BAD=1
  if [ -n "$JSON" ]; then
    printf '{"state":"%s","requirement":%s,"detail":%s,"remedy":%s}\n' "$1" "$(quoted "$2")" \
      "$([ -z "$3" ] && echo '""' || quoted "$3")" "$([ -z "${4-}" ] && echo null || quoted "$4")"
    return
  fi
  printf '%-8s %-24s %s\n' "$1" "$2" "$3"
  [ -z "${4-}" ] || printf '%-8s %-24s Do: %s\n' '' '' "$4"
}

# look TITLE CHECK…: a check of set-up, which ends its shell with what, why and what to do.
look() {
  title=$1
  shift
  if said=$("$@" 2>&1 </dev/null); then
    row ok "$title" ''
    return
  fi
  what=$(printf '%s\n' "$said" | sed -n 's/^Set-up stops: //p')
  remedy=$(printf '%s\n' "$said" | sed -n 's/^  Do:  //p')
  row missing "$title" "$what" "$remedy"
}

look_at_packages() {
  DEBIAN=$(sed -n 's/^VERSION_ID=//p' /etc/os-release | tr -d '"')
  find_wanted 2>/dev/null || true
  # shellcheck disable=SC2086,SC2116 # a list of names, to be set with one space between them
  wanted=$(echo ${WANTED-})
  if [ -z "$wanted" ]; then row ok 'Debian packages' ''; else
    row later 'Debian packages' "not installed: $wanted" '`space up` installs them.'
  fi
}

look_at_build() {
  if [ -x "$NODE" ]; then row ok 'Node 24' "$("$NODE" --version)"; else
    row later 'Node 24' 'not installed in this checkout' '`space up` installs it there, from the npm registry.'
  fi
  if [ -d "$SPACE_CACHE/assets" ]; then
    took=$(du -sm "$SPACE_CACHE" 2>/dev/null | cut -f1)
    row ok 'VMM, guest kernel, image' "in $SPACE_CACHE, ${took:-?} MiB; set-up removes what nothing has used for 30 days"
  else
    row later 'VMM, guest kernel, image' 'not built' '`space up` builds them, in about five minutes.'
  fi
}

look_at_kvm() {
  if [ ! -e /dev/kvm ]; then
    row note 'KVM' 'there is no /dev/kvm: guest code is emulated, and computes about 14 times slower' \
      'Use a machine with virtualisation, or a VM with nested virtualisation switched on.'
  else
    row note 'KVM' 'there is a /dev/kvm; whether it really works is found out by a probe VM at the first start' \
      '`space capabilities` says what came of it.'
  fi
}

look_at_cgroups() {
  # Of version 2, and those that are mounted of version 1, where io is called blkio.
  controllers=" $(cat /sys/fs/cgroup/cgroup.controllers 2>/dev/null || true) "
  controllers="$controllers$(sed -n 's/^[^ ]* [^ ]* cgroup \([^ ]*\) .*/ \1 /p' /proc/self/mounts | tr ',\n' '  ') "
  lacking=
  for controller in cpu memory pids io; do
    case "$controllers" in *" $controller "* | *" blk$controller "*) ;; *) lacking="$lacking $controller" ;; esac
  done
  # That of version 1 weighs VMMs on disks of one scheduler only.
  case "$lacking $controllers" in *" blkio "*)
    if ! grep -qs '\[bfq\]' /sys/block/*/queue/scheduler; then lacking="$lacking io (no disk is scheduled by BFQ)"; fi ;;
  esac
  if [ -z "$lacking" ]; then row ok 'cgroup limits' ''; else
    row note 'cgroup limits' "none for:$lacking; a VMM is held by its jail all the same" \
      'Mount a cgroup tree with it; once the platform runs, `space capabilities` says what is in force.'
  fi
}

look_at_memory() {
  free=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024))
  # Three quarters for sandboxes, an eighth of that for the pool, and a member takes 560.
  if [ "$free" -ge 6000 ]; then row ok 'memory' "$free MiB available"; elif [ "$free" -ge 2048 ]; then
    row ok 'memory' "$free MiB available; too little for a pool of ready sandboxes, unless you give it memory: --pool-memory 560"
  else
    row note 'memory' "$free MiB available; a sandbox takes 512 MiB unless you ask for another size" ''
  fi
}

# A mapping is only tried when a vault is opened: this changes nothing.
look_at_vaults() {
  if grep -qs device-mapper /proc/misc || modprobe --dry-run --quiet dm-crypt 2>/dev/null; then
    row ok 'encrypted vaults' "by the kernel's dm-crypt, unless that fails when a vault is opened"
    return
  fi
  if [ ! -e /dev/fuse ]; then
    row missing 'encrypted vaults' 'this kernel has neither device-mapper nor FUSE (/dev/fuse)' \
      'Use a kernel with one of them (modprobe dm-crypt, or modprobe fuse), or start with --vaults plain.'
    return
  fi
  row note 'encrypted vaults' \
    'by a server of the platform, which takes about a second of a CPU for each GB read or written: this kernel has no dm-crypt' \
    'A kernel with dm-crypt does it with less (modprobe dm-crypt); what is there opens with either.'
}

look_at_platform() {
  running=$(find_running "$DATA")
  if [ -n "$running" ]; then
    row ok 'the platform' "serves ${running##* } (process ${running%% *}, data in $DATA)"
    return
  fi
  row later 'the platform' "does not run on $DATA" '`space up` starts it.'
}

each_requirement look
look_at_packages
look_at_build
look_at_memory
look_at_kvm
look_at_cgroups
look_at_vaults
look_at_platform
exit "$BAD"
