# Sourced by bootstrap.sh: the npm packages of the lock file, Node 24 among them.

install_dependencies() {
  stamp=$ROOT/node_modules/.space-lock
  lock=$(sha256sum <"$ROOT/package-lock.json")
  [ "$(cat "$stamp" 2>/dev/null)" = "$lock" ] && return
  if ! installed_by_hand; then
    started=$(now_ms)
    say_step 4 'npm packages' 'installing'
    # No package needs its install scripts, and older npm would run them all.
    (cd "$ROOT" && as_owner npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >/dev/null) ||
      die 'npm ci failed.' 'Its messages are above.' 'Check that the npm registry can be reached, then run this again.'
    say_done 4 'npm packages' "$started"
  fi
  printf '%s\n' "$lock" | as_owner tee "$stamp" >/dev/null
}

# A developer's `npm install` gives the same as `npm ci`: don't make them wait for it twice.
installed_by_hand() {
  [ -x "$NODE" ] && as_owner "$NODE" "$ROOT/setup/lock-matches.ts" "$ROOT" 2>/dev/null
}
