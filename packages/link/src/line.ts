/**
 * One connection, with frames on it: a length of 4 bytes, a kind of one, and what the kind says. Each call has a line of its
 * own, so the kernel's socket buffers are the flow control, and the end of a process is the end of its calls.
 *
 * Reading takes one frame at a time and leaves the rest with the other side; writing waits until there is room.
 */
import type { Duplex } from 'node:stream';

/** The largest frame: a listing of tens of thousands of sandboxes, or an environment with long values. */
const MAX_FRAME_BYTES = 16 * 1024 * 1024;
/** Bodies are cut into frames of at most this length. */
export const MAX_BODY_BYTES = 64 * 1024;
const HEADER_BYTES = 5;

export const FRAME = { call: 1, reply: 2, item: 3, body: 4, end: 5, failure: 6, ticket: 7 } as const;
export type FrameKind = (typeof FRAME)[keyof typeof FRAME];

export interface Frame {
  readonly kind: number;
  readonly payload: Buffer;
}

/** The other side is gone, or does not keep to the frames. */
export class LineError extends Error {
  override readonly name = 'LineError';
}

export class Line {
  readonly #stream: Duplex;
  #ended = false;
  #discarding = false;
  #failure: Error | undefined;
  #wake = (): void => undefined;
  readonly #onGone = new Set<() => void>();
  readonly #closed = Promise.withResolvers<void>();
  readonly #listeners = {
    readable: () => this.#wake(),
    end: () => {
      this.#ended = true;
      this.#wake();
    },
    error: (error: Error) => {
      this.#failure ??= error;
    },
    close: () => {
      this.#ended = true;
      this.#wake();
      for (const listener of this.#onGone) listener();
      this.#closed.resolve();
    },
  };

  constructor(stream: Duplex) {
    this.#stream = stream;
    for (const [event, listener] of Object.entries(this.#listeners)) stream.on(event, listener);
  }

  get gone(): boolean {
    return this.#stream.destroyed;
  }

  /** Settles when all have been told that it is gone. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /** Called once when the connection is closed, by whomever; at once when it is. */
  onGone(listener: () => void): void {
    if (this.gone) listener();
    else this.#onGone.add(listener);
  }

  /** Returns when there is room for more, or nobody is there to read it. */
  async send(kind: FrameKind, parts: readonly Uint8Array[] = []): Promise<void> {
    const stream = this.#stream;
    if (!stream.writable) return;
    const length = parts.reduce((sum, part) => sum + part.length, 0);
    if (length > MAX_FRAME_BYTES) throw new LineError(`a frame would be ${length} bytes long`);
    stream.cork();
    let room = stream.write(headerOf(kind, length));
    for (const part of parts) room = stream.write(part);
    stream.uncork();
    if (room) return;
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        stream.off('drain', settle);
        stream.off('close', settle);
        resolve();
      };
      stream.on('drain', settle);
      stream.on('close', settle);
    });
  }

  /** The next frame; undefined when the other side has ended between two. */
  async read(): Promise<Frame | undefined> {
    if (this.#discarding) throw new LineError('what comes on the line is thrown away');
    const header = await this.#take(HEADER_BYTES);
    if (header === undefined) return undefined;
    const length = header.readUInt32BE(0);
    if (length > MAX_FRAME_BYTES) throw this.#broken(`a frame is ${length} bytes long`);
    const payload = length === 0 ? Buffer.alloc(0) : await this.#take(length);
    if (payload === undefined) throw this.#broken('a frame was cut');
    return { kind: header[4] ?? 0, payload };
  }

  /** Says that nothing more will be sent; what was is still delivered. */
  finish(): void {
    this.#stream.end();
  }

  /** What still comes is thrown away, so that the end of the other side is noticed. Nothing is read afterwards. */
  discard(): void {
    if (this.#discarding) return;
    this.#discarding = true;
    this.#wake = () => {
      while (!this.#stream.destroyed && this.#stream.read() !== null);
    };
    this.#wake();
  }

  close(): void {
    this.#stream.destroy();
  }

  /** The connection has no frames any more: what follows is for whoever reads it. */
  release(): void {
    for (const [event, listener] of Object.entries(this.#listeners)) this.#stream.off(event, listener);
  }

  async #take(count: number): Promise<Buffer | undefined> {
    for (;;) {
      const bytes: Buffer | null = this.#stream.destroyed ? null : this.#stream.read(count);
      if (bytes !== null) {
        // At its end a stream gives what is left.
        if (bytes.length < count) throw this.#broken('a frame was cut');
        return bytes;
      }
      if (this.#ended) {
        if (this.#failure !== undefined) throw new LineError('the connection broke', { cause: this.#failure });
        return undefined;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #broken(what: string): LineError {
    this.close();
    return new LineError(what);
  }
}

/** A whole frame, for whoever has no line. */
export function frameOf(kind: FrameKind, payload: Uint8Array): Buffer {
  return Buffer.concat([headerOf(kind, payload.length), payload]);
}

function headerOf(kind: FrameKind, length: number): Buffer {
  const header = Buffer.allocUnsafe(HEADER_BYTES);
  header.writeUInt32BE(length);
  header[4] = kind;
  return header;
}
