/** One connection to the helper: requests of one line each, answered in any order. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '@space/core';
import { z } from 'zod';
import { connectForFiles, type FileSocket } from './kernel.ts';

const CONNECT_RETRY_MS = 20;
/** An answer names a few limits, or a failure with its reason. */
const MAX_LINE_BYTES = 64 * 1024;
const MAX_OPEN = 48;

const errorCode = z.enum([
  'bad_request',
  'unavailable',
  'internal',
  'insufficient_space',
  'insufficient_memory',
  'name_taken',
  'vm_lost',
  'restore_failed',
  'not_found',
  'vault_key_wrong',
  'vault_damaged',
  'vault_in_use',
  'vault_busy',
]);
const answerSchema = z.union([
  z.strictObject({ id: z.int(), ok: z.unknown() }),
  z.strictObject({ id: z.int(), error: z.strictObject({ code: errorCode, detail: z.string() }) }),
]);

/** Whether the verb was done is not known. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
}

export async function connectWithin(path: string, timeoutMs: number): Promise<Connection> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return new Connection(connectForFiles(path));
    } catch (cause) {
      if (performance.now() > deadline) {
        throw new AppError('unavailable', `The helper does not listen at ${path}.`, { cause });
      }
    }
    await sleep(CONNECT_RETRY_MS);
  }
}

export class Connection {
  /** Resolves when the connection has ended, for whatever reason. */
  readonly lost: Promise<void>;
  readonly #files: FileSocket;
  readonly #open = new Map<number, PromiseWithResolvers<unknown>>();
  readonly #waiting: (() => void)[] = [];
  #nextId = 1;
  #text = '';

  constructor(files: FileSocket) {
    this.#files = files;
    const { socket } = files;
    const lost = Promise.withResolvers<void>();
    this.lost = lost.promise;
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => this.#receive(text));
    socket.on('error', () => undefined);
    socket.on('end', () => socket.destroy());
    socket.on('close', () => {
      lost.resolve();
      for (const waiter of this.#open.values()) waiter.reject(new ConnectionLost('The helper closed the connection'));
      this.#open.clear();
    });
  }

  async ask(words: readonly string[], timeoutMs: number, fds: readonly number[] = []): Promise<unknown> {
    while (this.#open.size >= MAX_OPEN) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    const id = this.#nextId++;
    const answer = Promise.withResolvers<unknown>();
    this.#open.set(id, answer);
    const timer = setTimeout(
      () => answer.reject(new AppError('unavailable', `The helper did not answer ${words[0]} within ${timeoutMs} ms.`)),
      timeoutMs,
    );
    try {
      this.#send(`${[id, ...words].join(' ')}\n`, fds);
      return await answer.promise;
    } finally {
      clearTimeout(timer);
      this.#open.delete(id);
      this.#waiting.shift()?.();
    }
  }

  close(): void {
    this.#files.socket.destroy();
  }

  #send(line: string, fds: readonly number[]): void {
    try {
      this.#files.send(Buffer.from(line), fds);
    } catch (cause) {
      this.close();
      throw new ConnectionLost('The helper is gone', { cause });
    }
  }

  #receive(text: string): void {
    const lines = (this.#text + text).split('\n');
    this.#text = lines.pop() ?? '';
    try {
      if (this.#text.length > MAX_LINE_BYTES) throw new Error('The answer is too long');
      for (const line of lines) this.#take(answerSchema.parse(JSON.parse(line)));
    } catch (cause) {
      this.#files.socket.destroy(new Error('The helper sent something that is no answer', { cause }));
    }
  }

  #take(answer: z.infer<typeof answerSchema>): void {
    // One that came too late has nobody who waits for it.
    const waiter = this.#open.get(answer.id);
    if (!('error' in answer)) {
      waiter?.resolve(answer.ok);
      return;
    }
    const { code, detail } = answer.error;
    // What it refuses, no caller outside has asked for.
    waiter?.reject(new AppError(code === 'bad_request' ? 'internal' : code, `${detail}.`));
  }
}
