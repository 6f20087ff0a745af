# Sourced by bootstrap.sh: what is needed from Debian. Nothing is downloaded when nothing is missing.

MIN_RUST_MINOR=85
# System users, whom nobody logs in as.
USERS='space-node space-control space-gateway'
# What only the tests use; ./test sets SPACE_FOR_TESTS.
FOR_TESTS='systemd zsh'
# Another apt (unattended upgrades, say) is waited for this long.
APT_WAIT_S=300

# Prints the names of those packages that are not (fully) installed.
missing_packages() {
  installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' "$@" 2>/dev/null || true) "
  for package; do
    case "$installed" in
    *" installed:$package "*) ;;
    *) printf '%s ' "$package" ;;
    esac
  done
}

# Sets WANTED (packages to install), and CARGO when a fit cargo is there already.
find_wanted() {
  btrfs_library=libbtrfsutil1
  [ "$DEBIAN" = 12 ] || btrfs_library=libbtrfsutil1t64
  WANTED=$(missing_packages btrfs-progs "$btrfs_library" ca-certificates cryptsetup-bin debian-archive-keyring e2fsprogs \
    gcc libc6-dev libssl-dev mmdebstrap protobuf-compiler util-linux zstd)
  has_postgresql || WANTED="$WANTED postgresql"
  command -v npm >/dev/null 2>&1 || WANTED="$WANTED nodejs npm"
  find_cargo || WANTED="$WANTED $(debian_rust)"
  # shellcheck disable=SC2086 # a list of names
  [ -z "${SPACE_FOR_TESTS-}" ] || WANTED="$WANTED $(missing_packages $FOR_TESTS)"
}

has_postgresql() {
  for server in /usr/lib/postgresql/*/bin/postgres; do
    [ -x "$server" ] && return
  done
  return 1
}

# A cargo whose rustc is new enough, on PATH or in the home of the owner of the checkout.
find_cargo() {
  owner_home=$(getent passwd "$(stat -c %u "$ROOT")" | cut -d: -f6)
  for CARGO in "$(command -v cargo || true)" "$owner_home/.cargo/bin/cargo" /usr/bin/cargo; do
    [ -x "$CARGO" ] || continue
    version=$(as_owner "${CARGO%/*}/rustc" --version 2>/dev/null) || continue
    rust_is_fit "$version" && return
  done
  CARGO=
  return 1
}

# rust_is_fit 'rustc 1.95.0 (…)'
rust_is_fit() {
  minor=$(printf '%s' "$1" | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p')
  [ "${minor:-0}" -ge "$MIN_RUST_MINOR" ]
}

# Debian 12 keeps a current Rust for building browsers, beside its own old one.
debian_rust() { if [ "$DEBIAN" = 12 ]; then echo rustc-web cargo-web; else echo rustc cargo; fi; }

install_packages() {
  [ -n "${WANTED# }" ] || return 0
  started=$(now_ms)
  # shellcheck disable=SC2086,SC2116 # a list of names, set with one space between them
  say_step 2 'Debian packages' "installing $(echo $WANTED)"
  case " $WANTED " in *' postgresql '*) forbid_system_cluster ;; esac
  update_lists
  finish_interrupted
  # shellcheck disable=SC2086 # a list of names
  apt_get install --yes --no-install-recommends $WANTED || die 'apt-get could not install what is missing.' \
    "It says: $(tail -n 5 "$SPACE_CACHE/apt.log")" \
    "Mend it (sudo apt-get install --fix-broken often does), then run this again. All it said: $SPACE_CACHE/apt.log"
  say_done 2 'Debian packages' "$started"
}

# What it prints goes to a file, and matters only when it fails. The lock must not leak to services that it starts.
apt_get() {
  as_root sh -c 'log=$1; shift; "$@" >"$log" 2>&1' sh "$SPACE_CACHE/apt.log" \
    env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
    apt-get -q -o "DPkg::Lock::Timeout=$APT_WAIT_S" -o Dpkg::Use-Pty=0 "$@" 9>&-
}

# An apt or dpkg that was interrupted must be brought to an end before anything else can be installed.
finish_interrupted() {
  [ -n "$(as_root dpkg --audit)$(ls /var/lib/dpkg/updates)" ] || return 0
  say_step 2 'Debian packages' 'finishing an installation that was interrupted'
  as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a >/dev/null 2>&1 9>&- || true
  apt_get install --yes --fix-broken || true
}

# The lists have a lock that apt-get does not wait for by itself. A source that fails is no reason to stop: what is
# needed may come from the others.
update_lists() {
  waited=0
  until apt_get update; do
    grep -q 'Could not get lock' "$SPACE_CACHE/apt.log" && [ "$waited" -lt "$APT_WAIT_S" ] || break
    [ "$waited" -gt 0 ] || say_step 2 'Debian packages' 'waiting for another apt-get to finish'
    sleep 3
    waited=$((waited + 3))
  done
}

# The platform runs a private PostgreSQL of its own: installing the server should start no other.
forbid_system_cluster() {
  as_root mkdir -p /etc/postgresql-common/createcluster.d
  echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.d/space.conf >/dev/null
}

# The processes of the platform, each as its own user; space-control runs PostgreSQL too. Nobody logs in as them.
make_users() {
  for user in $USERS; do
    getent passwd "$user" >/dev/null && continue
    say_step 3 'System users' "adding $user"
    as_root useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$user"
  done
}
