/** Signals by name, as Linux numbers them on x86-64 and arm64. Names are what the API speaks; numbers stay inside. */
export const SIGNALS = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15,
  SIGSTKFLT: 16,
  SIGCHLD: 17,
  SIGCONT: 18,
  SIGSTOP: 19,
  SIGTSTP: 20,
  SIGTTIN: 21,
  SIGTTOU: 22,
  SIGURG: 23,
  SIGXCPU: 24,
  SIGXFSZ: 25,
  SIGVTALRM: 26,
  SIGPROF: 27,
  SIGWINCH: 28,
  SIGIO: 29,
  SIGPWR: 30,
  SIGSYS: 31,
} as const;

export type SignalName = keyof typeof SIGNALS;

const NAMES = new Map<number, string>(Object.entries(SIGNALS).map(([name, number]) => [number, name]));

/** The signal's name; a real-time signal, which has none, is `SIG<number>`. */
export function signalNameOf(signal: number): string {
  return NAMES.get(signal) ?? `SIG${signal}`;
}
