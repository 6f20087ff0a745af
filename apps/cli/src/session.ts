/**
 * One command in a sandbox, as if it ran here: its output is ours, our input is its, signals to us go to it, and we end as
 * it ended. The stream goes on over lost connections and restarts of the server; what cannot go on is thrown.
 */
import { constants } from 'node:os';
import type { ExecEvent, ExecOptions, ProcessEnd, Sandbox, SignalName } from '@space/sdk';
import type { Context, Io } from './context.ts';
import { CliError, EXIT } from './errors.ts';
import { inertJson } from './inert.ts';
import { Escape, pumpInput } from './input-pump.ts';
import { writeAll } from './output.ts';
import { RawTerminal, terminalSize } from './terminal.ts';

export interface SessionOptions {
  /** Whether it runs on a terminal; undefined: when we are on one, both ways. */
  readonly tty?: boolean | undefined;
  /** Whether it is given our input. */
  readonly stdin: boolean;
  readonly exec: Pick<ExecOptions, 'env' | 'cwd' | 'user' | 'timeoutMs' | 'keepAwake'>;
}

/** To the command, with all that it has started. */
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const;
/** So often the same signal, and we leave without the command. */
const ENOUGH = 3;
/** How long a command whose terminal or reader is gone has to end before we leave. */
const LAST_WORDS_MS = 2_000;

/** Returns the exit code. */
export async function runSession(
  sandbox: Sandbox,
  command: string | readonly string[],
  options: SessionOptions,
  context: Context,
): Promise<number> {
  await using session = new Session(sandbox, options, context);
  return await session.run(command);
}

class Session implements AsyncDisposable {
  readonly #sandbox: Sandbox;
  readonly #options: SessionOptions;
  readonly #context: Context;
  readonly #isOnTerminal: boolean;
  readonly #isPty: boolean;
  readonly #over = new AbortController();
  readonly #cleanUps: (() => void)[] = [];
  readonly #counts = new Map<string, number>();
  #processId: string | undefined;
  #terminal: RawTerminal | undefined;
  /** Signals that came before the command was there to take them. */
  #early: SignalName[] = [];
  #resizing: Promise<void> = Promise.resolve();
  /** How we end when we leave before the command does. */
  #left: number | undefined;

  constructor(sandbox: Sandbox, options: SessionOptions, context: Context) {
    this.#sandbox = sandbox;
    this.#options = options;
    this.#context = context;
    const { stdin, stdout } = context.io;
    this.#isOnTerminal = stdin.isTTY === true && stdout.isTTY === true && options.stdin && !context.out.json;
    this.#isPty = options.tty ?? this.#isOnTerminal;
    this.#listen();
  }

  async run(command: string | readonly string[]): Promise<number> {
    const { exec, stdin } = this.#options;
    const { stdout, env } = this.#context.io;
    const pty = { ...terminalSize(stdout), term: termOf(env['TERM']) };
    const how = this.#isPty ? { pty } : { stdin };
    const events = this.#sandbox.exec(command, { ...exec, ...how, reattach: true, signal: this.#over.signal });
    try {
      let end: ProcessEnd | undefined;
      for await (const event of events) {
        await this.#handle(event);
        if (event.type === 'exited') end = event;
      }
      return end === undefined ? EXIT.platform : exitCodeOfEnd(end);
    } catch (error) {
      if (this.#left !== undefined) return this.#left;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    for (const cleanUp of this.#cleanUps) cleanUp();
    this.#context.io.stdin.destroy();
    this.#terminal?.[Symbol.dispose]();
  }

  async #handle(event: ExecEvent): Promise<void> {
    const { out, io } = this.#context;
    if (event.type === 'started') this.#start(event.processId);
    if (out.json) {
      const wire = 'data' in event ? { ...event, data: Buffer.from(event.data).toString('base64') } : event;
      await this.#write('stdout', Buffer.from(`${inertJson(wire)}\n`));
      return;
    }
    if (event.type === 'stdout' || event.type === 'stderr') {
      this.#terminal?.watch(event.data);
      await this.#write(event.type, event.data);
    } else if (event.type === 'lost') {
      const end = this.#terminal === undefined ? '\n' : '\r\n';
      io.stderr.write(
        `space: ${event.sizeBytes} bytes of ${event.stream} were lost here: nobody read them in time.${end}`,
      );
    } else if (event.type === 'exited' && event.oom) {
      io.stderr.write('space: the sandbox ran out of memory, and its kernel killed the command or a child of it.\n');
    }
  }

  /** A reader that is gone ends the command, as it does in a pipe of a shell. */
  async #write(stream: 'stdout' | 'stderr', bytes: Uint8Array): Promise<void> {
    try {
      await writeAll(this.#context.io[stream], bytes);
    } catch {
      this.#leaveSoon('SIGPIPE');
      // What is still printed goes nowhere; the stream ends with the command, or when we leave.
    }
  }

  #start(processId: string): void {
    if (this.#processId !== undefined) return;
    this.#processId = processId;
    if (this.#isPty && this.#isOnTerminal) this.#takeTerminal();
    for (const signal of this.#early) this.#send(signal);
    this.#early = [];
    if (!this.#options.stdin) return;
    const send = (bytes: Uint8Array, options: object) => this.#sandbox.writeInput(processId, bytes, options);
    const { signal } = this.#over;
    pumpInput(this.#input(), send, { isPty: this.#isPty, signal }).catch((error: unknown) => this.#over.abort(error));
  }

  #takeTerminal(): void {
    const terminal = new RawTerminal(this.#context.io);
    this.#terminal = terminal;
    this.#on(this.#context.io.stdout, 'resize', () => this.#resize());
    this.#on(this.#context.io.signals, 'SIGTSTP', () => terminal.suspend());
    this.#on(this.#context.io.signals, 'SIGCONT', () => {
      // Also after a SIGSTOP, which told us nothing: the shell has set the terminal to its own liking meanwhile.
      terminal.leave();
      terminal.enter();
      this.#resize();
    });
    // It may have another size by now.
    this.#resize();
  }

  async *#input(): AsyncGenerator<Uint8Array> {
    const wayOut = new Escape();
    for await (const chunk of this.#context.io.stdin) {
      if (this.#terminal === undefined) {
        yield chunk;
        continue;
      }
      const { bytes, leave } = wayOut.read(chunk);
      if (bytes.length > 0) yield bytes;
      if (leave) this.#leaveSoon('SIGHUP');
    }
  }

  #listen(): void {
    const { io } = this.#context;
    for (const name of FORWARDED) this.#on(io.signals, name, () => this.#forward(name));
  }

  #on(source: Io['signals'], name: string, listener: () => void): void {
    source.on(name, listener);
    this.#cleanUps.push(() => source.off(name, listener));
  }

  #forward(name: (typeof FORWARDED)[number]): void {
    const count = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, count);
    if (name === 'SIGHUP') this.#leaveSoon(name);
    else if (count >= ENOUGH) this.#leave(EXIT.signal + constants.signals[name]);
    else if (this.#processId !== undefined) this.#send(name);
    else {
      this.#early.push(name);
      this.#context.out.note(`The command gets ${name} once it has started. Twice more, and you leave without it.`);
    }
  }

  #send(name: SignalName): void {
    if (this.#processId === undefined) return;
    this.#sandbox.kill(this.#processId, name).catch(() => undefined);
  }

  /** Sends the signal, and gives the command a little time to end by it. */
  #leaveSoon(name: 'SIGHUP' | 'SIGPIPE'): void {
    if (this.#left !== undefined) return;
    const exitCode = EXIT.signal + constants.signals[name];
    this.#left = exitCode;
    this.#send(name);
    const timer = setTimeout(() => this.#leave(exitCode), LAST_WORDS_MS);
    this.#cleanUps.push(() => clearTimeout(timer));
  }

  #leave(exitCode: number): void {
    this.#left = exitCode;
    this.#over.abort(new CliError('left', 'The command was left.', 'It runs on in the sandbox.', exitCode));
  }

  /** One at a time, the last of them for sure. */
  #resize(): void {
    this.#resizing = this.#resizing
      .then(async () => {
        if (this.#processId === undefined) return;
        await this.#sandbox.resizeTerminal(this.#processId, terminalSize(this.#context.io.stdout), {
          signal: this.#over.signal,
        });
      })
      .catch(() => undefined);
  }
}

function exitCodeOfEnd({ exitCode, signal, timedOut }: ProcessEnd): number {
  if (timedOut) return EXIT.timedOut;
  if (exitCode !== null) return exitCode;
  return EXIT.signal + signalNumber(signal ?? '');
}

/** The platform and we are Linux; a real-time signal, which has no name, is told as SIG<number>. */
function signalNumber(name: string): number {
  return constants.signals[name as NodeJS.Signals] ?? Number(name.replace(/^SIG/, '')) % 128;
}

/** Only what can be the name of a terminal type. */
function termOf(term: string | undefined): string {
  return term !== undefined && /^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$/.test(term) ? term : 'xterm-256color';
}
