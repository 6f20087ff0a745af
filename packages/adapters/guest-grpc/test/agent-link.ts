/**
 * The agent's side of the link (guest/proto/LINK.md), written for tests in the plainest way: one buffer, one byte skipped
 * at a time. It is the second reading of the rules that the host's side is tested against.
 */
import { Duplex } from 'node:stream';
import { FRAME_KIND, frameHeader, HEADER_BYTES, MAX_PAYLOAD_BYTES } from '../src/frame.ts';

const KINDS: ReadonlySet<number> = new Set(Object.values(FRAME_KIND));

export class AgentLink {
  /** Sessions that were opened, as hex, in order. */
  readonly sessions: string[] = [];
  /** Bytes skipped in search of a header. */
  skipped = 0;
  /** While true, the agent reads and answers no SYNC. */
  mute = false;
  readonly raw: Duplex;
  readonly #onSession: (stream: Duplex) => void;
  #buffer = Buffer.alloc(0);
  #session: Buffer = Buffer.alloc(0);
  #stream: SessionStream | undefined;
  #carriedData = false;
  readonly #burst: boolean;
  readonly #pending: Buffer[] = [];

  /** With `burst`, what the agent sends within a few milliseconds arrives in one piece. */
  constructor(raw: Duplex, onSession: (stream: Duplex) => void, options: { burst?: boolean } = {}) {
    this.raw = raw;
    this.#burst = options.burst ?? false;
    this.#onSession = onSession;
    raw.on('data', (chunk: Buffer) => {
      this.#buffer = Buffer.concat([this.#buffer, chunk]);
      this.#readFrames();
    });
    raw.on('close', () => this.#stream?.destroy());
    raw.on('error', () => {});
  }

  get session(): Buffer {
    return this.#session;
  }

  #readFrames(): void {
    while (this.#buffer.length >= HEADER_BYTES) {
      const header = this.#buffer.subarray(0, HEADER_BYTES);
      const length = header.readUInt32LE(16);
      const kind = header.readUInt32LE(4);
      const valid = header.toString('latin1', 0, 4) === 'SPLK' && KINDS.has(kind) && length <= MAX_PAYLOAD_BYTES;
      if (!valid) {
        this.#buffer = this.#buffer.subarray(1);
        this.skipped += 1;
        continue;
      }
      if (this.#buffer.length < HEADER_BYTES + length) return;
      const session = Buffer.from(header.subarray(8, 16));
      const payload = this.#buffer.subarray(HEADER_BYTES, HEADER_BYTES + length);
      this.#buffer = this.#buffer.subarray(HEADER_BYTES + length);
      if (kind === FRAME_KIND.sync) this.#onSync(session);
      if (kind === FRAME_KIND.data && session.equals(this.#session)) this.#onPayload(payload);
    }
  }

  #onSync(session: Buffer): void {
    if (this.mute) return;
    const again = session.equals(this.#session) && !this.#carriedData;
    this.#write(frameHeader(FRAME_KIND.synced, session, 0));
    if (again) return;
    this.#stream?.destroy();
    this.#session = session;
    this.#carriedData = false;
    this.sessions.push(session.toString('hex'));
    this.#stream = new SessionStream(this.raw, session, (bytes) => this.#write(bytes));
    this.#onSession(this.#stream);
  }

  #write(bytes: Buffer): void {
    if (!this.#burst) {
      this.raw.write(bytes);
      return;
    }
    if (this.#pending.length === 0) setTimeout(() => this.raw.write(Buffer.concat(this.#pending.splice(0))), 5);
    this.#pending.push(bytes);
  }

  #onPayload(payload: Buffer): void {
    this.#carriedData = true;
    const { raw } = this;
    if (this.#stream?.push(payload) === false) {
      raw.pause();
      this.#stream.onRead = () => raw.resume();
    }
  }
}

class SessionStream extends Duplex {
  onRead = (): void => {};
  readonly #raw: Duplex;
  readonly #session: Buffer;
  readonly #send: (bytes: Buffer) => void;

  constructor(raw: Duplex, session: Buffer, send: (bytes: Buffer) => void) {
    super();
    this.#send = send;
    this.#raw = raw;
    this.#session = session;
    this.on('error', () => {});
  }

  override _read(): void {
    this.onRead();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    for (let at = 0; at < chunk.length; at += MAX_PAYLOAD_BYTES) {
      const payload = chunk.subarray(at, at + MAX_PAYLOAD_BYTES);
      this.#send(frameHeader(FRAME_KIND.data, this.#session, payload.length));
      this.#send(payload);
    }
    if (this.#raw.writableNeedDrain) this.#raw.once('drain', done);
    else done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#raw.resume();
    done(error);
  }
}
