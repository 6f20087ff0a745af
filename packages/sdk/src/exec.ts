/** Commands: `exec` gives events as they come, `run` waits for the end and collects. */
import type { ExecWireEvent, ProcessList, Request } from '@space/contract';
import { Capture } from './capture.ts';
import { readEvents } from './lines.ts';
import { fromBase64 } from './paths.ts';
import type { CallOptions, Transport } from './transport.ts';

export type SignalName = Request<'signalProcess'>['signal'];
export type Process = ProcessList['processes'][number];

export interface ExecOptions extends CallOptions {
  /** Added to the sandbox's environment, and stronger. */
  readonly env?: Readonly<Record<string, string>>;
  /** Absolute path; default: the user's home. */
  readonly cwd?: string;
  /** Name or uid in the sandbox; default: `user`. */
  readonly user?: string;
  /** After this time the whole process tree is killed, and the result says `timedOut`. Default: no limit. */
  readonly timeoutMs?: number;
}

export interface RunOptions extends ExecOptions {
  /** Called with text as it comes; characters are never split. */
  readonly onStdout?: (text: string) => void;
  readonly onStderr?: (text: string) => void;
  /** How much of stdout and of stderr, each, is kept for the result. Default 16 MiB. */
  readonly maxOutputBytes?: number;
}

/** What a command does, as it comes. The last is always `exited`; what prevents that is thrown. */
export type ExecEvent =
  | { readonly type: 'started'; readonly processId: string; readonly pid: number }
  | { readonly type: 'stdout' | 'stderr'; readonly data: Uint8Array }
  | {
      readonly type: 'exited';
      readonly exitCode: number | null;
      readonly signal: string | null;
      readonly timedOut: boolean;
    };

export interface RunResult {
  /** Null when a signal ended the command. */
  readonly exitCode: number | null;
  /** E.g. `SIGKILL`; null when the command exited by itself. */
  readonly signal: string | null;
  /** Whether it was killed because `timeoutMs` had passed. */
  readonly timedOut: boolean;
  /** As UTF-8 text; what is not valid UTF-8 is replaced by U+FFFD. */
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: Uint8Array;
  readonly stderrBytes: Uint8Array;
  /** Whether more was printed than `maxOutputBytes`; the text is then the beginning of it. */
  readonly stdoutTruncated: boolean;
  readonly stderrTruncated: boolean;
}

export const DEFAULT_MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

export async function* execEvents(
  transport: Transport,
  path: string,
  command: string | readonly string[],
  { signal, ...options }: ExecOptions = {},
): AsyncGenerator<ExecEvent> {
  const what = typeof command === 'string' ? { command } : { argv: command };
  const json = { ...what, env: options.env, cwd: options.cwd, user: options.user, timeoutMs: options.timeoutMs };
  const response = await transport.send({ method: 'POST', path: `${path}/exec`, json, signal });
  for await (const event of readEvents<ExecWireEvent>(response, 'exited', signal)) {
    yield 'data' in event ? { type: event.type, data: fromBase64(event.data) } : event;
  }
}

export async function run(
  transport: Transport,
  path: string,
  command: string | readonly string[],
  options: RunOptions = {},
): Promise<RunResult> {
  const { onStdout, onStderr, maxOutputBytes = DEFAULT_MAX_OUTPUT_BYTES, ...execOptions } = options;
  const outputs = { stdout: new Output(maxOutputBytes, onStdout), stderr: new Output(maxOutputBytes, onStderr) };
  let end: Pick<RunResult, 'exitCode' | 'signal' | 'timedOut'> | undefined;
  for await (const event of execEvents(transport, path, command, execOptions)) {
    if (event.type === 'exited') end = { exitCode: event.exitCode, signal: event.signal, timedOut: event.timedOut };
    else if (event.type !== 'started') outputs[event.type].add(event.data);
  }
  // `execEvents` ends with `exited` or throws.
  if (end === undefined) throw new Error('The command has no end.');
  const [stdout, stderr] = [outputs.stdout.end(), outputs.stderr.end()];
  return {
    ...end,
    stdout: stdout.text,
    stderr: stderr.text,
    stdoutBytes: stdout.bytes,
    stderrBytes: stderr.bytes,
    stdoutTruncated: stdout.truncated,
    stderrTruncated: stderr.truncated,
  };
}

class Output {
  readonly #capture: Capture;
  readonly #decoder = new TextDecoder();
  readonly #onText: ((text: string) => void) | undefined;

  constructor(maxBytes: number, onText: ((text: string) => void) | undefined) {
    this.#capture = new Capture(maxBytes);
    this.#onText = onText;
  }

  add(bytes: Uint8Array): void {
    this.#capture.add(bytes);
    this.#tell(this.#onText === undefined ? '' : this.#decoder.decode(bytes, { stream: true }));
  }

  end() {
    this.#tell(this.#decoder.decode());
    const { bytes, truncated } = this.#capture;
    return { bytes, truncated, text: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes) };
  }

  #tell(text: string): void {
    if (text !== '') this.#onText?.(text);
  }
}
