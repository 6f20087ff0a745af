# Sourced: whether a platform runs on a data folder. It tells so in DATA/running: pid, start time, boot, URL.

# find_running DATA: that line, or nothing. A pid is believed only with the start time and the boot that belong to it.
find_running() {
  [ -r "$1/running" ] || return 0
  read -r running_pid running_start running_boot running_url <"$1/running" || return 0
  [ "$running_boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] || return 0
  # Behind the name in parentheses, which can hold anything: the state, and the start time as the 20th field.
  case "$(sed 's/^.*) //' "/proc/$running_pid/stat" 2>/dev/null | cut -d' ' -f1,20)" in
  Z* | '') return 0 ;;
  *" $running_start") ;;
  *) return 0 ;;
  esac
  echo "$running_pid $running_start $running_boot $running_url"
}

usage() {
  printf '%s (bad_usage)\n  Next: Run the same with --help.\n' "$1" >&2
  exit 2
}
