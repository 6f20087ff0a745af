# Sourced by the other scripts here: how set-up speaks, and as whom it runs things.

STEPS=10

now_ms() { date +%s%3N; }

# say_step NUMBER TITLE TEXT
say_step() { printf '[%s/%s] %s: %s\n' "$1" "$STEPS" "$2" "$3" >&2; }

# say_done NUMBER TITLE STARTED_MS
say_done() {
  took=$(($(now_ms) - $3))
  say_step "$1" "$2" "done ($((took / 1000)).$((took % 1000 / 100)) s)"
}

# die WHAT WHY DO: what is wrong, why it matters, what to do about it.
die() {
  printf 'Set-up stops: %s\n  Why: %s\n  Do:  %s\n' "$1" "$2" "$3" >&2
  exit 1
}

is_root() { [ "$(id -u)" = 0 ]; }

# Runs a command as root. sudo drops the environment, so what our programs read is handed on by name.
# With `replace=exec` in front, the command takes this shell's place.
as_root() {
  if is_root; then
    ${replace-} "$@"
    return
  fi
  names='PATH CI UV_THREADPOOL_SIZE NO_COLOR FORCE_COLOR DATABASE_URL http_proxy https_proxy no_proxy NODE_EXTRA_CA_CERTS SSL_CERT_FILE'
  for name in $names $(env | sed -n 's/^\(SPACE_[A-Z0-9_]*\)=.*/\1/p'); do
    eval "[ -n \"\${$name+set}\" ] || continue"
    eval "set -- \"$name=\$$name\" \"\$@\""
  done
  ${replace-} sudo env "$@"
}

# Runs a command as the user who owns the checkout, so that nothing in it ends as somebody else's.
as_owner() {
  owner=$(stat -c %u "$ROOT")
  if [ "$owner" = "$(id -u)" ]; then
    "$@"
    return
  fi
  entry=$(getent passwd "$owner") || die "The checkout $ROOT belongs to user id $owner, who does not exist here." \
    'npm and cargo run as the owner of the checkout.' "chown -R \"\$(id -u)\" '$ROOT', then run this again."
  name=${entry%%:*}
  home=$(printf '%s' "$entry" | cut -d: -f6)
  as_root runuser -u "$name" -- env HOME="$home" "$@"
}
