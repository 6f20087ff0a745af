/** Commands: `exec` gives events as they come, `run` waits for the end and collects, `start` does not wait. */
import type { ExecWireEvent, ProcessList, Request, StartedProcess } from '@space/contract';
import { Capture } from './capture.ts';
import { SpaceError } from './errors.ts';
import type { FileContent } from './files.ts';
import { type InputOptions, writeInput } from './input.ts';
import { readEvents } from './lines.ts';
import { refuseUnknown } from './options.ts';
import { fromBase64 } from './paths.ts';
import { follow, type Position } from './reattach.ts';
import type { CallOptions, Transport } from './transport.ts';

export type SignalName = Request<'signalProcess'>['signal'];
export type Process = ProcessList['processes'][number];
export type { InputOptions, StartedProcess };

export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

export interface StartOptions extends CallOptions {
  /** Added to the sandbox's environment, and stronger. */
  readonly env?: Readonly<Record<string, string>>;
  /** Absolute path; default: the user's home. */
  readonly cwd?: string;
  /** Name or uid in the sandbox; default: `user`. */
  readonly user?: string;
  /**
   * After this time the whole process tree is killed, and the result says `timedOut`. Default: no limit. Root in the sandbox
   * can take a process out of the tree.
   */
  readonly timeoutMs?: number;
  /** Not paused as idle while the process, or what it left, is alive. */
  readonly keepAwake?: boolean;
  /** Takes a snapshot when it ends; a stream that is still read gives `exited` after that. */
  readonly checkpoint?: boolean;
  /** Whether it takes input (see `writeInput`). Default: its stdin is /dev/null. */
  readonly stdin?: boolean;
  /** Run it on a terminal: its one output is `stdout`, and it takes input. `term` is the variable TERM. */
  readonly pty?: TerminalSize & { readonly term?: string };
}

export interface ReattachOptions {
  /**
   * Whether to go on where the stream was interrupted: by a lost connection, a restart of the server, a pause (attaching
   * wakes the sandbox). Default false: the interruption is thrown.
   */
  readonly reattach?: boolean;
}

export interface ExecOptions extends StartOptions, ReattachOptions {}

export interface AttachOptions extends CallOptions, ReattachOptions {
  /** The first byte of each stream to give. Default 0. */
  readonly stdoutOffset?: number;
  readonly stderrOffset?: number;
}

export interface RunOptions extends Omit<ExecOptions, 'stdin'> {
  /** What it reads; then its input ends. A source is read at the pace of the command. Default: nothing. */
  readonly stdin?: FileContent;
  /** Called with text as it comes; characters are never split. */
  readonly onStdout?: (text: string) => void;
  readonly onStderr?: (text: string) => void;
  /** How much of stdout and of stderr, each, is kept for the result. Default 16 MiB. */
  readonly maxOutputBytes?: number;
}

/** What a command does, as it comes. The last is always `exited`; what prevents that is thrown. */
export type ExecEvent =
  | { readonly type: 'started'; readonly processId: string; readonly pid: number }
  /** `offset` is the position of its first byte in the stream. */
  | { readonly type: 'stdout' | 'stderr'; readonly offset: number; readonly data: Uint8Array }
  /** Output that is not given: nobody read it in time, or another reader was faster. */
  | {
      readonly type: 'lost';
      readonly stream: 'stdout' | 'stderr';
      readonly offset: number;
      readonly sizeBytes: number;
    }
  | ({ readonly type: 'exited' } & ProcessEnd);

export interface ProcessEnd {
  /** Null when a signal ended the command. */
  readonly exitCode: number | null;
  /** E.g. `SIGKILL`; null when the command exited by itself. */
  readonly signal: string | null;
  /** Whether it was killed because `timeoutMs` had passed. */
  readonly timedOut: boolean;
  /** Whether the sandbox ran out of memory and its kernel killed the command or a child of it. */
  readonly oom: boolean;
}

export interface RunResult extends ProcessEnd {
  /** As UTF-8 text; what is not valid UTF-8 is replaced by U+FFFD. */
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: Uint8Array;
  readonly stderrBytes: Uint8Array;
  /** Whether more was printed than `maxOutputBytes`; the text is then the beginning of it. */
  readonly stdoutTruncated: boolean;
  readonly stderrTruncated: boolean;
  /** Output in the midst of it that was lost; 0 as long as nobody else reads it and no stream is interrupted for long. */
  readonly lostBytes: number;
}

export const DEFAULT_MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

export function execEvents(
  transport: Transport,
  path: string,
  command: string | readonly string[],
  { signal, reattach, ...options }: ExecOptions = {},
): AsyncGenerator<ExecEvent> {
  const json = { ...commandOf(command), ...options };
  const open = () => eventsOf(transport.send({ method: 'POST', path: `${path}/exec`, json, signal }), signal);
  return reattach ? follow(open(), (at) => reopen(transport, path, at, signal), signal) : open();
}

export function attachEvents(
  transport: Transport,
  path: string,
  processId: string,
  { signal, reattach, stdoutOffset = 0, stderrOffset = 0, ...unknown }: AttachOptions = {},
): AsyncGenerator<ExecEvent> {
  refuseUnknown(unknown);
  const at = { processId, stdoutOffset, stderrOffset };
  const events = reopen(transport, path, at, signal);
  return reattach ? follow(events, (next) => reopen(transport, path, next, signal), signal, at) : events;
}

export function start(
  transport: Transport,
  path: string,
  command: string | readonly string[],
  { signal, ...options }: StartOptions = {},
): Promise<StartedProcess> {
  const json = { ...commandOf(command), ...options };
  return transport.json({ method: 'POST', path: `${path}/processes`, json, signal });
}

export async function run(
  transport: Transport,
  path: string,
  command: string | readonly string[],
  options: RunOptions = {},
): Promise<RunResult> {
  const { onStdout, onStderr, maxOutputBytes = DEFAULT_MAX_OUTPUT_BYTES, stdin, ...rest } = options;
  const outputs = { stdout: new Output(maxOutputBytes, onStdout), stderr: new Output(maxOutputBytes, onStderr) };
  const feeding = new Feeding(options.signal);
  const execOptions = { ...rest, signal: feeding.signal, ...(stdin === undefined ? {} : { stdin: true }) };
  let end: ProcessEnd | undefined;
  let lostBytes = 0;
  try {
    for await (const event of execEvents(transport, path, command, execOptions)) {
      if (event.type === 'exited') {
        const { type: _, ...rest } = event;
        end = rest;
      } else if (event.type === 'lost') lostBytes += event.sizeBytes;
      else if (event.type !== 'started') outputs[event.type].add(event.data);
      else if (stdin !== undefined) {
        feeding.start((signal) =>
          writeInput(transport, path, event.processId, stdin, { offset: 0, eof: true, signal }),
        );
      }
    }
  } finally {
    feeding.stop();
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
    lostBytes,
  };
}

const KNOWN_EVENTS: ReadonlySet<string> = new Set<ExecEvent['type']>(['started', 'stdout', 'stderr', 'lost', 'exited']);

function commandOf(command: string | readonly string[]) {
  return typeof command === 'string' ? { command } : { argv: command };
}

function reopen(transport: Transport, path: string, at: Position, signal: AbortSignal | undefined) {
  const { processId, ...query } = at;
  const stream = `${path}/processes/${encodeURIComponent(processId)}/stream`;
  return eventsOf(transport.send({ method: 'GET', path: stream, query, signal }), signal);
}

async function* eventsOf(response: Promise<Response>, signal: AbortSignal | undefined): AsyncGenerator<ExecEvent> {
  for await (const event of readEvents<ExecWireEvent>(await response, 'exited', signal)) {
    // A newer server may tell more.
    if (!KNOWN_EVENTS.has(event.type)) continue;
    yield 'data' in event ? { ...event, data: fromBase64(event.data) } : event;
  }
}

/** Input that is sent while output is read. It ends with the command; its failure ends the waiting for the command. */
class Feeding {
  readonly signal: AbortSignal;
  readonly #failure = new AbortController();
  readonly #over = new AbortController();

  constructor(outer: AbortSignal | undefined) {
    this.signal = outer === undefined ? this.#failure.signal : AbortSignal.any([outer, this.#failure.signal]);
  }

  start(send: (signal: AbortSignal) => Promise<unknown>): void {
    send(AbortSignal.any([this.signal, this.#over.signal])).catch((error: unknown) => {
      // As in a shell, a command need not read all that it is given.
      const isUnread = error instanceof SpaceError && (error.code === 'input_closed' || error.code === 'not_found');
      if (!isUnread) this.#failure.abort(error);
    });
  }

  stop(): void {
    this.#over.abort();
  }
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
