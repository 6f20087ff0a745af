/** Runs a program, mostly the command line, on a real pseudo-terminal, which Python's standard library opens. */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const ROOT = join(import.meta.dirname, '../../..');
export const MAIN = join(ROOT, 'apps/cli/src/main.ts');

/**
 * Copies between its own pipes and the terminal of the child, obeys commands on file descriptor 3 (`size COLS ROWS`,
 * `kill SIGNAL`), and tells at the end how the child ended and how the terminal was left.
 */
const DRIVER = `
import fcntl, json, os, pty, select, signal, struct, sys, termios
def flags(fd):
    a = termios.tcgetattr(fd); return a[:4]
fd, slave = pty.openpty()
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for own in (0, 1, 2): os.dup2(slave, own)
    for own in (3, fd, slave): os.close(own)
    os.execvp(sys.argv[1], sys.argv[1:])
before = flags(slave)
control, stdin = os.fdopen(3, 'rb', 0), 0
sources, ended = [fd, 0, 3], None
while ended is None:
    for ready in select.select(sources, [], [], 0.02)[0]:
        if ready == fd:
            os.write(1, os.read(fd, 65536))
        elif ready == 0:
            data = os.read(0, 65536)
            if data: os.write(fd, data)
            else: sources.remove(0)
        else:
            line = os.read(3, 4096).decode()
            if not line: sources.remove(3)
            for word in filter(None, line.split('\\n')):
                name, *rest = word.split()
                if name == 'size':
                    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', int(rest[1]), int(rest[0]), 0, 0))
                if name == 'kill': os.kill(pid, getattr(signal, rest[0]))
                if name == 'state':
                    with open('/proc/%d/stat' % pid) as stat: state = stat.read().rsplit(')', 1)[1].split()[0]
                    print(json.dumps({'state': state, 'raw': flags(slave) != before}), file=sys.stderr, flush=True)
    done, status = os.waitpid(pid, os.WNOHANG)
    if done: ended = status
while select.select([fd], [], [], 0.1)[0]:
    try: os.write(1, os.read(fd, 65536))
    except OSError: break
print(json.dumps({'code': os.waitstatus_to_exitcode(ended), 'restored': flags(slave) == before}), file=sys.stderr, flush=True)
`;

export interface PtyEnd {
  /** Negative: the signal that ended it. */
  readonly code: number;
  /** Whether the terminal has the modes that it had before. */
  readonly restored: boolean;
}

export interface PtyState {
  /** Of the process: `T` is stopped. */
  readonly state: string;
  readonly raw: boolean;
}

export class Pty {
  /** All that came to the screen. */
  screen = '';
  readonly ended: Promise<PtyEnd>;
  readonly #child: ChildProcess;
  readonly #states: PtyState[] = [];

  constructor(command: readonly string[], env: Readonly<Record<string, string>>) {
    this.#child = spawn('python3', ['-c', DRIVER, ...command], {
      env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm', SPACE_CONFIG: '/nonexistent', ...env },
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    });
    this.#child.stdout?.on('data', (bytes: Buffer) => {
      this.screen += bytes.toString('latin1');
    });
    this.ended = new Promise((resolve, reject) => {
      const lines = createInterface({ input: this.#child.stderr as NodeJS.ReadableStream });
      lines.on('line', (line) => {
        if (!line.startsWith('{')) return reject(new Error(`the driver says: ${line}`));
        const told = JSON.parse(line);
        if ('code' in told) resolve(told);
        else this.#states.push(told);
      });
      this.#child.once('exit', (code) => reject(new Error(`the driver ended with ${code}`)));
    });
    this.ended.catch(() => undefined);
  }

  type(text: string): void {
    this.#child.stdin?.write(text);
  }

  resize(cols: number, rows: number): void {
    this.#order(`size ${cols} ${rows}`);
  }

  kill(signal: string): void {
    this.#order(`kill ${signal}`);
  }

  async state(): Promise<PtyState> {
    const before = this.#states.length;
    this.#order('state');
    await until(() => this.#states.length > before);
    return this.#states.at(-1) as PtyState;
  }

  sees(text: string | RegExp): Promise<void> {
    const matches = () => (typeof text === 'string' ? this.screen.includes(text) : text.test(this.screen));
    return until(matches, () => `not on the screen: ${text}; it shows ${JSON.stringify(this.screen)}`);
  }

  #order(line: string): void {
    const control = this.#child.stdio[3];
    if (control === null || control === undefined || !('write' in control)) throw new Error('no control');
    control.write(`${line}\n`);
  }
}

/** Waits until it is so, with a bound. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  why: () => string = () => `never: ${condition}`,
): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(why());
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
