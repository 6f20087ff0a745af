/**
 * One end of a connection that is lent: who calls has the connection, and who answers uses it. Its bytes have a socket of their
 * own, as they are: the kernel holds what is unread, and who uses it can have that socket. The line beside it says what a
 * socket cannot: that the end of the bytes is the end that was meant, and not a reset; and how it ended.
 */
import type { Socket } from 'node:net';
import { AppError, type LentSocket, type PortConnection } from '@space/core';
import { FRAME, type Frame, type Line, LineError } from './line.ts';

/** The other side is told of a reset by the line first, so that it does not take it for an end. */
const RESET_WITHIN_MS = 5_000;

const NEWS = ['readable', 'end', 'close'] as const;

export class LentConnection implements PortConnection {
  readonly output: AsyncIterable<Uint8Array>;
  readonly closed: Promise<void>;
  /** The frame that came in place of more; undefined: the line is gone. Never rejects. */
  readonly last: Promise<Frame | undefined>;
  readonly #line: Line;
  readonly #socket: Socket;
  readonly #close: () => void;
  /** Ours is delivered. */
  #ended = false;
  /** The other side has said that what has come is all. */
  #farEnded = false;
  #hasReadAll = false;
  #over = false;
  #isTaken = false;
  #isDiscarded = false;
  #wake = (): void => undefined;
  readonly #onNews = (): void => this.#wake();

  constructor(line: Line, socket: Socket) {
    this.#line = line;
    this.#socket = socket;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    this.#close = resolve;
    this.output = this.#read();
    socket.on('error', () => undefined);
    // For as long as it is read here: to come and go for each piece costs more than to read it.
    for (const event of NEWS) socket.on(event, this.#onNews);
    socket.once('finish', () => this.#tellEnd());
    this.last = this.#receive()
      .catch(() => {
        line.close();
        return undefined;
      })
      .finally(() => this.#finish());
  }

  /** Whether nothing comes any more, however much is unread. */
  get over(): boolean {
    return this.#over;
  }

  async write(bytes: Uint8Array): Promise<void> {
    const socket = this.#socket;
    if (this.#over || !socket.writable) throw cut();
    if (socket.write(bytes)) return;
    await eventOf(socket, 'drain');
    if (socket.destroyed) throw cut();
  }

  end(): void {
    this.#socket.end();
  }

  /** Behind our end it is no reset of what was sent, and the line may still say how it ended. */
  reset(): void {
    if (!this.#ended && !this.#socket.writableEnded) this.#line.close();
    this.#discard();
  }

  /** What was ended is delivered before it is said that all is over; what comes meanwhile, nobody wants. */
  async whenDelivered(): Promise<void> {
    const socket = this.#socket;
    if (!socket.writableEnded) return void socket.destroy();
    if (!socket.writableFinished) await eventOf(socket, 'finish');
    this.#discard();
  }

  /** The socket itself, with what was read of it to be read again; null when it is ended already. */
  take(unread: Uint8Array): LentSocket | null {
    const socket = this.#socket;
    if (!socket.readable || !socket.writable || this.#over) return null;
    this.#stopReading();
    if (unread.length > 0) socket.unshift(Buffer.from(unread));
    this.#isTaken = true;
    return { socket, ended: () => this.#tellEnd() };
  }

  async *#read(): AsyncGenerator<Uint8Array, void> {
    const socket = this.#socket;
    try {
      for (;;) {
        const bytes: Uint8Array | null = socket.read();
        if (bytes !== null) yield bytes;
        else if (socket.readableEnded || socket.destroyed || this.#isDiscarded) break;
        else await this.#news();
      }
      // Bytes and word are on two sockets, and come in either order.
      while (!this.#farEnded && !this.#over && !this.#isDiscarded) await this.#news();
      if (!this.#farEnded || this.#isDiscarded) throw cut();
      this.#hasReadAll = true;
      this.#settle();
    } finally {
      if (!this.#hasReadAll) this.reset();
    }
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #stopReading(): void {
    for (const event of NEWS) this.#socket.off(event, this.#onNews);
  }

  async #receive(): Promise<Frame | undefined> {
    for (;;) {
      const frame = await this.#line.read();
      if (frame === undefined) {
        // Whoever waits for its end hears why before the bytes break off.
        this.#line.close();
        await this.#line.closed;
      }
      if (frame?.kind !== FRAME.end) return frame;
      if (this.#farEnded) throw new LineError('the other side has ended twice');
      this.#farEnded = true;
      this.#wake();
    }
  }

  #tellEnd(): void {
    if (this.#ended) return;
    this.#ended = true;
    void this.#line.send(FRAME.end);
    this.#settle();
  }

  #finish(): void {
    this.#over = true;
    this.#wake();
    this.#close();
    if (!this.#farEnded) this.#discard();
  }

  #settle(): void {
    if (this.#ended && this.#hasReadAll) this.#close();
  }

  /** Until the other side, which the line tells, has closed it; what we have ended is delivered meanwhile. */
  #discard(): void {
    const socket = this.#socket;
    if (this.#isDiscarded || this.#isTaken) return;
    this.#isDiscarded = true;
    this.#wake();
    if (socket.destroyed) return;
    if (this.#line.gone) {
      const late = setTimeout(() => socket.destroy(), RESET_WITHIN_MS);
      late.unref();
      socket.once('close', () => clearTimeout(late));
    }
    const close = (): void => {
      if (socket.writableEnded && !socket.writableFinished) socket.once('finish', () => socket.destroy());
      else socket.destroy();
    };
    this.#stopReading();
    if (socket.readableEnded) close();
    else socket.once('end', close).resume();
  }
}

/** One direction, to its end. */
export async function copy(from: PortConnection, to: PortConnection): Promise<void> {
  for await (const bytes of from.output) await to.write(bytes);
  to.end();
}

/** Returns when it happens, or the socket is closed. */
function eventOf(socket: Socket, name: 'drain' | 'finish'): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      for (const event of [name, 'close']) socket.off(event, settle);
      resolve();
    };
    for (const event of [name, 'close']) socket.on(event, settle);
  });
}

function cut(): AppError {
  return new AppError('link_lost', 'The connection was cut.');
}
