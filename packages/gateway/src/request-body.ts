/**
 * The body of a request, which may be read ahead before it is decided whether the request leaves. What was read ahead is sent
 * on like the rest.
 */
import { Readable, type Transform } from 'node:stream';
import { AppError } from '@space/core';
import { until } from './until.ts';

const AHEAD_WITHIN_MS = 60_000;

export interface BodyStart {
  readonly bytes: Buffer;
  /** Whether that is all of it. */
  readonly isWhole: boolean;
}

export class RequestBody {
  readonly #source: Readable;
  readonly #beforeFirst: () => void;
  #iterator: AsyncIterator<Buffer> | null = null;
  #ahead: Buffer[] = [];
  #aheadBytes = 0;
  #isWhole = false;
  #screen: (() => Transform) | null = null;

  /** `beforeFirst` is called before anything is read ahead: whoever waits to be told that it may send is told then. */
  constructor(source: Readable, beforeFirst: () => void = () => undefined) {
    this.#source = source;
    this.#beforeFirst = beforeFirst;
  }

  get wasRead(): boolean {
    return this.#iterator !== null;
  }

  /**
   * Reads until there are more than `limit` bytes, or all. Throws `egress_failed` when the sender gives up or takes longer than a
   * minute. Not to be called after `stream`, nor twice at once.
   */
  async peek(limit: number): Promise<BodyStart> {
    if (this.#iterator === null) {
      this.#beforeFirst();
      this.#iterator = this.#source.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
    }
    const late = AbortSignal.timeout(AHEAD_WITHIN_MS);
    while (!this.#isWhole && this.#aheadBytes <= limit) {
      const next = await until(late, this.#iterator.next()).catch((cause: unknown) => {
        if (late.aborted) throw broken('The body of the request did not come in time.');
        throw cause instanceof AppError ? cause : broken('The body of the request broke off.', cause);
      });
      if (next.done) this.#isWhole = true;
      else this.#keep(next.value);
    }
    this.#ahead = [Buffer.concat(this.#ahead)];
    return { bytes: this.#ahead[0] as Buffer, isWhole: this.#isWhole };
  }

  /** What all of it passes through on its way out. */
  screen(make: () => Transform): void {
    this.#screen = make;
  }

  /** All of it, from the first byte on. To be called once. */
  stream(): Readable {
    const whole = this.#whole();
    if (this.#screen === null) return whole;
    const screened = this.#screen();
    // The other way round it is not ended: whoever sent what does not pass is to be told why.
    whole.once('error', (error) => void screened.destroy(error));
    whole.once('close', () => {
      if (!whole.readableEnded) screened.destroy(broken('The body of the request broke off.'));
    });
    return whole.pipe(screened);
  }

  #whole(): Readable {
    if (this.#iterator === null) return this.#source;
    const rest = Readable.from(this.#all(this.#iterator), { objectMode: false });
    const giveUp = (error?: Error): void => void rest.destroy(error);
    this.#source.once('error', giveUp);
    rest.once('close', () => this.#source.off('error', giveUp));
    return rest;
  }

  async *#all(iterator: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
    for (const bytes of this.#ahead.splice(0)) if (bytes.length > 0) yield bytes;
    if (this.#isWhole) return;
    for (let next = await iterator.next(); !next.done; next = await iterator.next()) yield next.value;
  }

  #keep(bytes: Buffer): void {
    this.#ahead.push(bytes);
    this.#aheadBytes += bytes.length;
  }
}

function broken(detail: string, cause?: unknown): AppError {
  return new AppError('egress_failed', { detail, ...(cause === undefined ? {} : { cause }) });
}
