/**
 * The host's side of the link (guest/proto/LINK.md): turns the raw bytes of a virtio-serial port, where leftovers of an
 * earlier life may come first, into one session, a clean Duplex for HTTP/2.
 *
 *     HTTP/2 ──write──► frames ──► raw port ──► agent
 *            ◄──push─── payloads ◄── raw port ◄──
 *
 * Invariants:
 * - A byte that the reader gets was sent by the agent in this session, in order; what breaks a rule ends the session.
 * - Memory is bounded both ways: the raw port is paused when the reader lags, and a write is acknowledged only when the
 *   raw port has room.
 * - What is written before the agent's `SYNCED` is sent at once, right behind the `SYNC`, so that a restore pays one round
 *   trip for handshake and first request. It is kept (at most `MAX_EARLY_BYTES`) and sent again with each fresh session;
 *   so only requests that may reach the agent twice may be written before `opened`.
 */
import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { Duplex } from 'node:stream';
import { AppError } from '@space/core';
import {
  dataLength,
  FRAME_KIND,
  frameHeader,
  HEADER_BYTES,
  MAX_PAYLOAD_BYTES,
  RESYNC_BYTES,
  SESSION_BYTES,
  writeHeader,
} from './frame.ts';

/**
 * Without an answer for this long, the agent is taken to be inside a cut frame. The wait doubles with each try up to the
 * maximum, so that a slow agent catches up with the last session.
 */
const FIRST_RETRY_MS = 250;
const MAX_RETRY_MS = 2_000;
const MAX_EARLY_BYTES = 16_384;
const BUFFER_BYTES = 65_536;
/** Time to flush what is written when the session is closed; a frame that is cut costs the next session a retry. */
const FLUSH_MS = 200;

const ZEROS = Buffer.alloc(RESYNC_BYTES);

export interface LinkOptions {
  /** How long the agent may take to answer the handshake. */
  readonly openLimitMs: number;
}

type Acknowledge = (error?: Error | null) => void;

export class Link extends Duplex {
  /** Settles when the agent has answered; rejects with `agent_lost` or `link_lost`. Handled: it may be left alone. */
  readonly opened: Promise<void>;
  readonly #raw: Duplex;
  readonly #openLimitMs: number;
  #session = Buffer.alloc(0);
  #state: 'syncing' | 'open' = 'syncing';
  #settleOpened: { resolve: () => void; reject: (error: Error) => void };
  #retry: NodeJS.Timeout | undefined;
  #retryMs = FIRST_RETRY_MS;
  #limit: NodeJS.Timeout | undefined;
  /** Before `SYNCED`: the end of what was searched, which may hold the start of its header. */
  #tail = Buffer.alloc(0);
  #early: Buffer[] = [];
  #earlyBytes = 0;
  /** A write that waits for `SYNCED` or for room in the raw port. */
  #held: { readonly chunks: readonly Buffer[]; readonly done: Acknowledge } | undefined;
  #waiting: Acknowledge | undefined;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  #headerBytes = 0;
  #payloadLeft = 0;

  constructor(raw: Duplex, options: LinkOptions) {
    super({ readableHighWaterMark: BUFFER_BYTES, writableHighWaterMark: BUFFER_BYTES, emitClose: true });
    this.#raw = raw;
    this.#openLimitMs = options.openLimitMs;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.opened = promise;
    this.#settleOpened = { resolve, reject };
    promise.catch(() => {});
    // The reason of an end is `errored`; whoever owns the link listens to `close`.
    this.on('error', () => {});
    this.#attach();
    // The SYNC waits for the end of the turn, so that what is written in it goes out in the same piece.
    raw.cork();
    this.#startSession();
    setImmediate(() => setImmediate(() => raw.uncork()));
  }

  #attach(): void {
    const raw = this.#raw;
    raw.on('data', this.#onData);
    raw.on('drain', this.#onDrain);
    raw.on('end', this.#onRawEnd);
    raw.on('close', this.#onRawEnd);
    raw.on('error', this.#onRawError);
    this.#limit = setTimeout(() => {
      this.destroy(new AppError('agent_lost', `The agent did not answer the handshake in ${this.#openLimitMs} ms.`));
    }, this.#openLimitMs);
    if (raw.destroyed || raw.readableEnded) process.nextTick(this.#onRawEnd);
  }

  // ── Handshake ────────────────────────────────────────────────────────────────────────────────────────────────────

  #startSession(): void {
    this.#session = randomBytes(SESSION_BYTES);
    this.#tail = Buffer.alloc(0);
    this.#raw.write(frameHeader(FRAME_KIND.sync, this.#session, 0));
    if (this.#earlyBytes > 0) this.#writeFrames(this.#early);
    this.#retry = setTimeout(this.#onRetry, this.#retryMs);
  }

  readonly #onRetry = (): void => {
    // While the raw port has not even taken the last try, another would only pile up.
    if (this.#raw.writableLength > 0) {
      this.#retry = setTimeout(this.#onRetry, this.#retryMs);
      return;
    }
    this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS);
    this.#raw.write(ZEROS);
    this.#startSession();
  };

  /** Looks for our own `SYNCED` in the bytes; what precedes it is of an earlier session. */
  #search(chunk: Buffer): void {
    const synced = frameHeader(FRAME_KIND.synced, this.#session, 0);
    const bytes = this.#tail.length === 0 ? chunk : Buffer.concat([this.#tail, chunk]);
    const at = bytes.indexOf(synced);
    if (at === -1) {
      this.#tail = Buffer.from(bytes.subarray(Math.max(0, bytes.length - HEADER_BYTES + 1)));
      return;
    }
    this.#open();
    this.#receive(bytes.subarray(at + HEADER_BYTES));
  }

  #open(): void {
    this.#state = 'open';
    clearTimeout(this.#retry);
    clearTimeout(this.#limit);
    this.#tail = Buffer.alloc(0);
    this.#early = [];
    this.#settleOpened.resolve();
    const held = this.#held;
    this.#held = undefined;
    if (held) this.#send(held.chunks, held.done);
  }

  // ── Receiving ────────────────────────────────────────────────────────────────────────────────────────────────────

  readonly #onData = (chunk: Buffer): void => {
    if (this.#state === 'syncing') this.#search(chunk);
    else this.#receive(chunk);
  };

  #receive(chunk: Buffer): void {
    let at = 0;
    let room = true;
    while (at < chunk.length && !this.destroyed) {
      if (this.#payloadLeft === 0) {
        at = this.#takeHeader(chunk, at);
        continue;
      }
      const end = Math.min(chunk.length, at + this.#payloadLeft);
      this.#payloadLeft -= end - at;
      room = this.push(chunk.subarray(at, end));
      at = end;
    }
    if (!room) this.#raw.pause();
  }

  /** Reads a header, or the part of it that is there; returns where the next byte is. */
  #takeHeader(chunk: Buffer, at: number): number {
    if (this.#headerBytes === 0 && chunk.length - at >= HEADER_BYTES) {
      this.#beginPayload(chunk, at);
      return at + HEADER_BYTES;
    }
    const copied = chunk.copy(this.#header, this.#headerBytes, at, at + HEADER_BYTES - this.#headerBytes);
    this.#headerBytes += copied;
    if (this.#headerBytes === HEADER_BYTES) {
      this.#headerBytes = 0;
      this.#beginPayload(this.#header, 0);
    }
    return at + copied;
  }

  #beginPayload(bytes: Buffer, at: number): void {
    const length = dataLength(bytes, at, this.#session);
    if (typeof length === 'number') this.#payloadLeft = length;
    else this.destroy(new AppError('link_lost', `The agent broke the rules of the link: ${length}.`));
  }

  override _read(): void {
    this.#raw.resume();
  }

  // ── Sending ──────────────────────────────────────────────────────────────────────────────────────────────────────

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Acknowledge): void {
    this.#send([chunk], done);
  }

  override _writev(items: { chunk: Buffer; encoding: BufferEncoding }[], done: Acknowledge): void {
    this.#send(
      items.map((item) => item.chunk),
      done,
    );
  }

  #send(chunks: readonly Buffer[], done: Acknowledge): void {
    if (this.#state === 'syncing' && !this.#keepEarly(chunks)) {
      this.#held = { chunks, done };
      return;
    }
    this.#raw.cork();
    this.#writeFrames(chunks);
    this.#raw.uncork();
    if (this.#raw.writableNeedDrain) this.#waiting = done;
    else done();
  }

  /** Keeps what is sent before `SYNCED`; false when that would be more than allowed. */
  #keepEarly(chunks: readonly Buffer[]): boolean {
    const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    if (this.#earlyBytes + bytes > MAX_EARLY_BYTES) return false;
    this.#early.push(...chunks);
    this.#earlyBytes += bytes;
    return true;
  }

  /** Gathers the chunks into as few frames as possible, each written as one buffer. */
  #writeFrames(chunks: readonly Buffer[]): void {
    let left = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    let index = 0;
    let offset = 0;
    while (left > 0) {
      const payload = Math.min(left, MAX_PAYLOAD_BYTES);
      const frame = Buffer.allocUnsafe(HEADER_BYTES + payload);
      writeHeader(frame, FRAME_KIND.data, this.#session, payload);
      let at = HEADER_BYTES;
      while (at < frame.length) {
        const chunk = chunks[index] as Buffer;
        const copied = chunk.copy(frame, at, offset);
        at += copied;
        offset += copied;
        if (offset === chunk.length) {
          index += 1;
          offset = 0;
        }
      }
      this.#raw.write(frame);
      left -= payload;
    }
  }

  readonly #onDrain = (): void => {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.();
  };

  // ── End ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  readonly #onRawEnd = (): void => {
    this.destroy(new AppError('link_lost', 'The port of the guest was closed.'));
  };

  readonly #onRawError = (error: Error): void => {
    this.destroy(new AppError('link_lost', 'The port of the guest failed.', { cause: error }));
  };

  override _destroy(error: Error | null, done: Acknowledge): void {
    clearTimeout(this.#retry);
    clearTimeout(this.#limit);
    const reason = error ?? new AppError('link_lost', 'The session was closed.');
    this.#settleOpened.reject(reason);
    this.#detach();
    const pending = [this.#held?.done, this.#waiting];
    this.#held = undefined;
    this.#waiting = undefined;
    for (const acknowledge of pending) acknowledge?.(reason);
    done(error);
  }

  /** Lets go of the raw port: whole frames are flushed, then it is closed. */
  #detach(): void {
    const raw = this.#raw;
    raw.off('data', this.#onData);
    raw.off('drain', this.#onDrain);
    raw.off('end', this.#onRawEnd);
    raw.off('close', this.#onRawEnd);
    raw.off('error', this.#onRawError);
    if (raw.destroyed) return;
    const close = (): void => {
      clearTimeout(timer);
      raw.destroy();
    };
    const timer = setTimeout(close, FLUSH_MS);
    raw.on('error', () => {});
    raw.once('close', () => clearTimeout(timer));
    raw.end(close);
  }
}
