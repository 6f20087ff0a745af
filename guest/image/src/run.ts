/** Runs other programs. Each has a time limit, ends when we end, and its last words are part of the error. */
import { spawn } from 'node:child_process';

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Default: 20 minutes, enough for a download or a compilation on a slow machine. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

const DEFAULT_TIMEOUT_MS = 1_200_000;
const TAIL_BYTES = 8192;

/** Resolves with what the program wrote to standard output; rejects with the end of all that it wrote. */
export async function run(argv: readonly string[], options: RunOptions = {}): Promise<string> {
  const [program, ...args] = argv;
  if (program === undefined) throw new TypeError('argv is empty');
  const timeout = AbortSignal.timeout(options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
  const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;

  // The parent death signal: killed set-ups leave no builder behind that goes on writing.
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', '--', program, ...args], {
    cwd: options.cwd,
    env: { ...process.env, LC_ALL: 'C.UTF-8', ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    killSignal: 'SIGKILL',
  });
  const stdout: Buffer[] = [];
  let tail = '';
  const remember = (chunk: Buffer) => {
    tail = (tail + chunk.toString()).slice(-TAIL_BYTES);
  };
  child.stdout.on('data', (chunk: Buffer) => {
    stdout.push(chunk);
    remember(chunk);
  });
  child.stderr.on('data', remember);

  const { promise, resolve, reject } = Promise.withResolvers<string>();
  child.on('error', (cause) => reject(new Error(`${program} could not run or was stopped`, { cause })));
  child.on('close', (code, killedBy) => {
    if (code === 0) resolve(Buffer.concat(stdout).toString());
    else reject(new Error(`${argv.join(' ')} failed (${killedBy ?? `exit code ${code}`}):\n${tail.trimEnd()}`));
  });
  return promise;
}

/**
 * A new mount namespace begins with a copy of every mount, and a vault that is closed meanwhile would live on in it, with its
 * device and its lock, for as long as the build takes. That the host's unmounts reach the copy is not to be counted on: they do
 * only where the host's own mounts are shared.
 */
const WITHOUT_VAULTS = `
while read -r _ target kind _; do
  target=$(printf %b "$target")
  case "$kind" in
  btrfs) [ ! -e "$target/vault.json" ] || umount --lazy "$target" ;;
  fuse.space-vault) umount --lazy "$target" ;;
  esac
done < /proc/mounts
exec "$@"`;

/**
 * In namespaces of its own: mounts that the program makes vanish with it, and every process that it started dies with
 * it, so that an interrupted build leaves plain files only. It holds no vault of the host open.
 */
export const confined = (argv: readonly string[]): string[] => [
  ...['unshare', '--mount', '--pid', '--fork', '--kill-child=KILL', '--mount-proc', '--propagation', 'private', '--'],
  ...['/bin/sh', '-euc', WITHOUT_VAULTS, 'confined', ...argv],
];
