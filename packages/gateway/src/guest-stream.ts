/** A connection of the guest as a stream of Node's, whose first bytes can be looked at before anybody reads them. */

import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { LentGuest, LentSocket } from '@space/core';

export class GuestStream extends Duplex {
  readonly #connection: LentGuest;
  readonly #output: AsyncIterator<Uint8Array>;
  #pending: Promise<IteratorResult<Uint8Array>> | null = null;
  #seen: Buffer = Buffer.alloc(0);
  #ended = false;
  #activeAtMs = performance.now();
  /** Taken out of it, and how many bytes it had carried when it was last looked at. */
  #socket: Socket | null = null;
  #carriedBytes = 0;

  constructor(connection: LentGuest) {
    super({ allowHalfOpen: true });
    this.#connection = connection;
    this.#output = connection.output[Symbol.asyncIterator]();
  }

  /**
   * Pulls bytes until `look` says something about those there are, and leaves them all to be read. Null: the guest ended
   * first, or `signal` aborted; then it can be asked again.
   */
  async peek<T>(look: (bytes: Buffer) => T | null, signal: AbortSignal): Promise<T | null> {
    const late = Promise.withResolvers<null>();
    const giveUp = (): void => late.resolve(null);
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      for (;;) {
        const told = look(this.#seen);
        if (told !== null) return told;
        if (this.#ended || signal.aborted) return null;
        const next = await Promise.race([this.#pull(), late.promise]);
        if (next === null) return null;
        this.#take(next);
      }
    } finally {
      signal.removeEventListener('abort', giveUp);
    }
  }

  /** When bytes last went either way; of a socket that was taken out: when it was last seen that some had. */
  get activeAtMs(): number {
    const carried = this.#socket === null ? 0 : this.#socket.bytesRead + this.#socket.bytesWritten;
    if (carried !== this.#carriedBytes) {
      this.#carriedBytes = carried;
      this.#activeAtMs = performance.now();
    }
    return this.#activeAtMs;
  }

  /**
   * The kernel's socket under it, from the first byte on, for who wraps it; null: there is none. This stream is then read and
   * written no more, and destroys the socket when it is destroyed.
   */
  takeSocket(): LentSocket | null {
    if (this.#pending !== null || this.#ended || this.destroyed) return null;
    const taken = this.#connection.take?.(this.#seen) ?? null;
    if (taken === null) return null;
    this.#seen = Buffer.alloc(0);
    this.#socket = taken.socket;
    taken.socket.once('close', () => this.destroy());
    return taken;
  }

  /** Whether the guest has sent anything that nobody has read yet. */
  get hasSpoken(): boolean {
    return this.#seen.length > 0;
  }

  get hasEnded(): boolean {
    return this.#ended;
  }

  override _read(): void {
    if (this.#seen.length > 0) {
      const seen = this.#seen;
      this.#seen = Buffer.alloc(0);
      this.push(seen);
      return;
    }
    if (this.#ended) {
      this.push(null);
      return;
    }
    this.#pull().then(
      (next) => {
        this.#pending = null;
        this.#activeAtMs = performance.now();
        if (next.done) this.#ended = true;
        this.push(next.done ? null : next.value);
      },
      (error: Error) => this.destroy(error),
    );
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#activeAtMs = performance.now();
    this.#connection.write(chunk).then(() => done(), done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), 'utf8', done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#connection.end();
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket?.destroy();
    this.#connection.reset();
    // What is still being pulled ends with the reset.
    Promise.resolve(this.#output.return?.()).catch(() => undefined);
    done(error);
  }

  #pull(): Promise<IteratorResult<Uint8Array>> {
    if (this.#pending === null) {
      this.#pending = this.#output.next();
      // It may fail when nobody waits for it any more.
      this.#pending.catch(() => undefined);
    }
    return this.#pending;
  }

  #take(next: IteratorResult<Uint8Array>): void {
    this.#pending = null;
    if (next.done) this.#ended = true;
    else this.#seen = Buffer.concat([this.#seen, next.value]);
  }
}
