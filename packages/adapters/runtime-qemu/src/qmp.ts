/**
 * A client of QMP, the JSON protocol by which a QEMU process is controlled: one object a line, a greeting, replies with the
 * id of their command, and events in between. QEMU runs commands in the order in which they come, so a caller may send
 * several before it awaits the first.
 *
 * A hijacked VMM is on the other end: lines, open commands and waits are bounded, and whatever is not QMP ends the
 * connection. When it ends, every open command fails with `QmpClosed`.
 *
 * What QEMU still had to answer when a connection broke, it answers on the next one. So an id names its connection as well,
 * and answers to another one are dropped.
 */
import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { FileSocket } from '@space/root-helper';
import { z } from 'zod';

const MAX_LINE_BYTES = 1024 * 1024;
const MAX_OPEN_COMMANDS = 64;
const DEFAULT_TIMEOUT_MS = 10_000;

const message = z.union([
  z.object({ QMP: z.object({ version: z.unknown() }) }),
  z.object({ event: z.string().max(100), data: z.record(z.string(), z.unknown()).optional() }),
  z.object({ id: z.string().max(100), return: z.unknown() }),
  z.object({ id: z.string().max(100).optional(), error: z.object({ class: z.string(), desc: z.string() }) }),
]);
type QmpMessage = z.infer<typeof message>;

export interface QmpEvent {
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** QEMU refused a command; it can take others. */
class QmpRefused extends Error {
  override readonly name = 'QmpRefused';
}

/** The connection is gone; nothing is said about the process. */
class QmpClosed extends Error {
  override readonly name = 'QmpClosed';
}

/** No answer in time. After a command the connection is closed: what a late answer would mean is not known. */
class QmpTimeout extends Error {
  override readonly name = 'QmpTimeout';
}

interface Waiter<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (reason: Error) => void;
}

export class Qmp {
  readonly #stream: Duplex;
  readonly #files: FileSocket | null;
  readonly #session = randomUUID();
  readonly #open = new Map<string, Waiter<unknown>>();
  readonly #eventListeners = new Set<(event: QmpEvent) => void>();
  readonly #closeListeners = new Set<(reason: Error) => void>();
  #greeting: Waiter<void> | null = null;
  #nextId = 1;
  #line: Buffer = Buffer.alloc(0);
  #closed: Error | null = null;

  private constructor(stream: Duplex, files: FileSocket | null) {
    this.#stream = stream;
    this.#files = files;
    stream.on('data', (chunk: Buffer) => this.#receive(chunk));
    stream.on('error', (cause) => this.#fail(new QmpClosed('The connection to the VMM broke', { cause })));
    stream.on('close', () => this.#fail(new QmpClosed('The VMM closed the connection')));
    stream.on('end', () => this.#fail(new QmpClosed('The VMM closed the connection')));
  }

  /** Waits for the greeting and enters command mode. The stream belongs to the client from here on, also on failure. */
  static async open(connection: Duplex | FileSocket, timeoutMs = DEFAULT_TIMEOUT_MS): Promise<Qmp> {
    const qmp = 'socket' in connection ? new Qmp(connection.socket, connection) : new Qmp(connection, null);
    const greeted = new Promise<void>((resolve, reject) => {
      qmp.#greeting = { resolve, reject };
    });
    await qmp.#within(timeoutMs, 'greeting', greeted);
    await qmp.execute('qmp_capabilities', undefined, timeoutMs);
    return qmp;
  }

  get closed(): boolean {
    return this.#closed !== null;
  }

  /** The connection itself, through which somebody else passes files while no command is under way. */
  descriptor(): number {
    if (!this.#files || this.#open.size > 0) throw new QmpRefused('This connection cannot be handed over now');
    return this.#files.descriptor();
  }

  execute(command: string, args?: Readonly<Record<string, unknown>>, timeoutMs = DEFAULT_TIMEOUT_MS): Promise<unknown> {
    return this.#command(command, args, timeoutMs, (line) => this.#stream.write(line));
  }

  /** Passes open files with a command. QEMU holds them until the next ones come, or a command takes them. */
  executeWithFiles(
    command: string,
    args: Readonly<Record<string, unknown>> | undefined,
    fds: readonly number[],
  ): Promise<unknown> {
    return this.#command(command, args, DEFAULT_TIMEOUT_MS, (line) => {
      if (!this.#files) throw new QmpRefused('This connection carries no files');
      this.#files.send(Buffer.from(line), fds);
    });
  }

  #command(
    command: string,
    args: Readonly<Record<string, unknown>> | undefined,
    timeoutMs: number,
    send: (line: string) => void,
  ): Promise<unknown> {
    if (this.#closed) return Promise.reject(this.#closed);
    if (this.#open.size >= MAX_OPEN_COMMANDS) return Promise.reject(new QmpRefused('Too many commands are open'));
    const id = `${this.#session}/${this.#nextId++}`;
    const answer = new Promise<unknown>((resolve, reject) => this.#open.set(id, { resolve, reject }));
    try {
      send(`${JSON.stringify({ execute: command, ...(args && { arguments: args }), id })}\n`);
    } catch (thrown) {
      this.#open.delete(id);
      return Promise.reject(thrown);
    }
    return this.#within(timeoutMs, command, answer);
  }

  /** The first event, from now on, for which `pick` gives something other than undefined. A late one is an error of this wait only. */
  waitFor<T>(what: string, pick: (event: QmpEvent) => T | undefined, signal: AbortSignal): Promise<T> {
    const found = Promise.withResolvers<T>();
    const abort = (): void => found.reject(new QmpTimeout(`The wait for ${what} was ended`, { cause: signal.reason }));
    const stopEvents = this.onEvent((event) => {
      const picked = pick(event);
      if (picked !== undefined) found.resolve(picked);
    });
    const stopClose = this.onClose(found.reject);
    signal.addEventListener('abort', abort, { once: true });
    if (this.#closed) found.reject(this.#closed);
    if (signal.aborted) abort();
    return found.promise.finally(() => {
      stopEvents();
      stopClose();
      signal.removeEventListener('abort', abort);
    });
  }

  onEvent(listener: (event: QmpEvent) => void): () => void {
    this.#eventListeners.add(listener);
    return () => this.#eventListeners.delete(listener);
  }

  /** Called once, when the connection ends for whatever reason. */
  onClose(listener: (reason: Error) => void): () => void {
    this.#closeListeners.add(listener);
    return () => this.#closeListeners.delete(listener);
  }

  close(): void {
    this.#fail(new QmpClosed('The connection was closed by this side'));
  }

  #within<T>(timeoutMs: number, what: string, promise: Promise<T>): Promise<T> {
    const timer = setTimeout(
      () => this.#fail(new QmpTimeout(`No answer to ${what} within ${timeoutMs} ms`)),
      timeoutMs,
    );
    return promise.finally(() => clearTimeout(timer));
  }

  #receive(chunk: Buffer): void {
    if (this.#closed) return;
    let rest = this.#line.length === 0 ? chunk : Buffer.concat([this.#line, chunk]);
    for (let end = rest.indexOf(10); end >= 0 && !this.#closed; end = rest.indexOf(10)) {
      this.#handleLine(rest.subarray(0, end).toString());
      rest = rest.subarray(end + 1);
    }
    this.#line = rest;
    if (rest.length > MAX_LINE_BYTES) this.#fail(new QmpClosed('The VMM sent a line that is too long'));
  }

  #handleLine(line: string): void {
    try {
      this.#handle(message.parse(JSON.parse(line)));
    } catch (cause) {
      this.#fail(new QmpClosed('The VMM sent something that is not QMP', { cause }));
    }
  }

  #handle(received: QmpMessage): void {
    if ('QMP' in received) {
      this.#greeting?.resolve();
      this.#greeting = null;
      return;
    }
    if ('event' in received) {
      const event = { name: received.event, data: received.data ?? {} };
      for (const listener of this.#eventListeners) listener(event);
      return;
    }
    const { id } = received;
    if (id && !id.startsWith(`${this.#session}/`)) return;
    const waiter = this.#open.get(id ?? '');
    if (!id || !waiter) throw new Error('An answer to no command');
    this.#open.delete(id);
    if ('error' in received) waiter.reject(new QmpRefused(received.error.desc));
    else waiter.resolve(received.return);
  }

  #fail(reason: Error): void {
    if (this.#closed) return;
    this.#closed = reason;
    this.#stream.destroy();
    this.#greeting?.reject(reason);
    for (const waiter of this.#open.values()) waiter.reject(reason);
    this.#open.clear();
    for (const listener of this.#closeListeners) listener(reason);
    this.#closeListeners.clear();
    this.#eventListeners.clear();
  }
}
