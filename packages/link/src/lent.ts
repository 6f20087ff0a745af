/**
 * One end of a connection that is lent over a line: who calls has the connection, and who answers uses it. Both ends read all
 * that comes at once, so that each notices when the other is gone, however slow who uses it is; what they may hold unread is
 * bounded by credits: a side sends no more than a window beyond what the other has taken.
 */
import { AppError, type PortConnection } from '@space/core';
import { FRAME, type Frame, type Line, LineError, MAX_BODY_BYTES } from './line.ts';

/** Of each direction: what may be under way, and unread. */
const WINDOW_BYTES = 256 * 1024;
/** What has been taken is told of in such portions: a frame of its own for each piece would cost as much as the piece. */
const CREDIT_AFTER_BYTES = WINDOW_BYTES / 4;
const CREDIT_BYTES = 4;

export class LentConnection implements PortConnection {
  readonly output: AsyncIterable<Uint8Array>;
  readonly closed: Promise<void>;
  /** The frame that came in place of more; undefined: the line is gone. Never rejects. */
  readonly last: Promise<Frame | undefined>;
  readonly #line: Line;
  readonly #close: () => void;
  readonly #unread: Uint8Array[] = [];
  #unreadBytes = 0;
  /** Taken, and not told of yet. */
  #takenBytes = 0;
  #room = WINDOW_BYTES;
  #ended = false;
  #farEnded = false;
  #over = false;
  #wakeReader = (): void => undefined;
  #wakeWriter = (): void => undefined;

  constructor(line: Line) {
    this.#line = line;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    this.#close = resolve;
    this.output = this.#read();
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
    for (let offset = 0; offset < bytes.length; ) {
      while (this.#room <= 0 && !this.#over) await new Promise<void>((resolve) => (this.#wakeWriter = resolve));
      if (this.#over || this.#ended) throw cut();
      const piece = bytes.subarray(offset, offset + Math.min(MAX_BODY_BYTES, this.#room));
      offset += piece.length;
      this.#room -= piece.length;
      await this.#line.send(FRAME.body, [piece]);
    }
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    void this.#line.send(FRAME.end);
    this.#settle();
  }

  reset(): void {
    if (!this.#ended || !this.#farEnded) this.#line.close();
  }

  async *#read(): AsyncGenerator<Uint8Array, void> {
    try {
      for (;;) {
        const piece = this.#unread.shift();
        if (piece !== undefined) {
          yield piece;
          this.#unreadBytes -= piece.length;
          this.#takenBytes += piece.length;
          if (this.#takenBytes >= CREDIT_AFTER_BYTES) {
            const taken = credit(this.#takenBytes);
            this.#takenBytes = 0;
            await this.#line.send(FRAME.credit, [taken]);
          }
        } else if (this.#farEnded) {
          return this.#settle();
        } else {
          if (this.#over) throw cut();
          await new Promise<void>((resolve) => (this.#wakeReader = resolve));
        }
      }
    } finally {
      if (!this.#farEnded) this.reset();
    }
  }

  async #receive(): Promise<Frame | undefined> {
    for (;;) {
      const frame = await this.#line.read();
      switch (frame?.kind) {
        case FRAME.body:
          this.#unreadBytes += frame.payload.length;
          if (this.#farEnded || this.#unreadBytes > WINDOW_BYTES) throw new LineError('more was sent than may be');
          this.#unread.push(frame.payload);
          break;
        case FRAME.end:
          this.#farEnded = true;
          break;
        case FRAME.credit:
          this.#room = Math.min(WINDOW_BYTES, this.#room + frame.payload.readUInt32BE(0));
          this.#wakeWriter();
          break;
        default:
          return frame;
      }
      this.#wakeReader();
    }
  }

  #finish(): void {
    this.#over = true;
    this.#wakeReader();
    this.#wakeWriter();
    this.#close();
  }

  #settle(): void {
    if (this.#ended && this.#farEnded && this.#unread.length === 0) this.#close();
  }
}

/** One direction, to its end. */
export async function copy(from: PortConnection, to: PortConnection): Promise<void> {
  for await (const bytes of from.output) await to.write(bytes);
  to.end();
}

function credit(bytes: number): Uint8Array {
  const frame = Buffer.allocUnsafe(CREDIT_BYTES);
  frame.writeUInt32BE(bytes);
  return frame;
}

function cut(): AppError {
  return new AppError('link_lost', 'The connection was cut.');
}
