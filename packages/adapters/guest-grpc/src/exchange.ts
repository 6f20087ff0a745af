/**
 * One gRPC exchange on an HTTP/2 stream: messages of ours, messages of the agent's, a status. It is written on Node's
 * streams directly, so that every wait ends when the stream does, nothing of a message is kept once it was handed on, and
 * a request with one message leaves in one piece.
 */
import * as http2 from 'node:http2';
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';

/** A method of a generated service. */
export interface Method<I extends DescMessage, O extends DescMessage> {
  readonly name: string;
  readonly parent: { readonly typeName: string };
  readonly input: I;
  readonly output: O;
}

export interface MessageLimits {
  readonly readBytes: number;
  readonly writeBytes: number;
}

/** The agent ended the exchange with a status other than OK. Its text is hostile. */
export class StatusError extends Error {
  override readonly name = 'StatusError';
  readonly status: number;

  constructor(status: number, text: string) {
    super(text);
    this.status = status;
  }
}

/** One byte of flags, four of length. */
const PREFIX_BYTES = 5;
const STATUS_OK = 0;
const STATUS_UNKNOWN = 2;

export class Exchange<I extends DescMessage, O extends DescMessage> {
  readonly #method: Method<I, O>;
  readonly #limits: MessageLimits;
  readonly #http: http2.ClientHttp2Stream;
  #head: (http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader) | undefined;
  #trailers: http2.IncomingHttpHeaders = {};
  #end: { readonly failure: Error | undefined } | undefined;
  #wake = (): void => {};
  /** However it ended. */
  readonly whenClosed: Promise<void>;

  constructor(session: http2.ClientHttp2Session, method: Method<I, O>, limits: MessageLimits, signal: AbortSignal) {
    signal.throwIfAborted();
    this.#method = method;
    this.#limits = limits;
    // Node queues a request until the session has begun, and does not wait for the agent's settings.
    this.#http = session.request({
      ':method': 'POST',
      ':path': `/${method.parent.typeName}/${method.name}`,
      'content-type': 'application/grpc+proto',
      te: 'trailers',
    });
    const onAbort = (): void => this.cancel();
    signal.addEventListener('abort', onAbort);
    this.whenClosed = new Promise((resolve) => {
      this.#http.once('close', () => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      });
    });
    this.#listen();
  }

  get closed(): boolean {
    return this.#http.closed || this.#http.destroyed;
  }

  /** Ends the exchange at the agent too, unless it is over. */
  cancel(): void {
    if (!this.closed) this.#http.close(http2.constants.NGHTTP2_CANCEL);
    // One that the agent closed while we were sending stays half open in Node, and whoever waits for room waits for ever.
    else if (!this.#http.destroyed) this.#http.destroy();
  }

  /** Sends a message; returns when there is room for the next, or none will be wanted. */
  async send(message: MessageInitShape<I>): Promise<void> {
    if (this.closed || this.#http.write(this.#framed(message))) return;
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        this.#http.off('drain', settle);
        this.#http.off('close', settle);
        resolve();
      };
      this.#http.on('drain', settle);
      this.#http.on('close', settle);
    });
  }

  /** Says that no message follows, with or without a last one. */
  finish(last?: MessageInitShape<I>): void {
    if (this.closed) return;
    if (last === undefined) this.#http.end();
    else this.#http.end(this.#framed(last));
  }

  /** The one message of a reply. */
  async reply(): Promise<MessageShape<O>> {
    let only: MessageShape<O> | undefined;
    for await (const message of this.replies()) {
      if (only !== undefined) throw new Error('there is more than one reply');
      only = message;
    }
    if (only === undefined) throw new Error('there is no reply');
    return only;
  }

  /** The messages until the agent's OK; throws its status, or what broke the stream. */
  async *replies(): AsyncGenerator<MessageShape<O>, void, undefined> {
    try {
      for (;;) {
        const prefix = await this.#read(PREFIX_BYTES);
        if (prefix === undefined) break;
        const length = prefix.readUInt32BE(1);
        if (prefix[0] !== 0) throw new Error('a message is compressed');
        if (length > this.#limits.readBytes) throw new Error(`a message is ${length} bytes long`);
        const bytes = length === 0 ? Buffer.alloc(0) : await this.#read(length);
        if (bytes === undefined) throw new Error('a message was cut');
        yield fromBinary(this.#method.output, bytes);
      }
      this.#checkStatus();
    } finally {
      this.cancel();
    }
  }

  #listen(): void {
    const http = this.#http;
    const settle = (failure?: Error): void => {
      this.#end ??= { failure };
      this.#wake();
    };
    http.on('response', (headers) => {
      this.#head = headers;
    });
    http.on('trailers', (trailers) => {
      this.#trailers = trailers;
    });
    http.on('readable', () => this.#wake());
    http.on('end', () => settle());
    http.on('error', settle);
    http.on('close', () => settle(new Error('the stream broke off')));
  }

  /**
   * Exactly `count` bytes; undefined when the stream ended before the first. Node's own iterator won't do: it takes a
   * stream whose last frame has arrived for one that broke off, although its bytes still wait to be read.
   */
  async #read(count: number): Promise<Buffer | undefined> {
    for (;;) {
      const bytes: Buffer | null = this.#http.destroyed ? null : this.#http.read(count);
      if (bytes !== null) {
        if (bytes.length < count) throw new Error('a message was cut');
        return bytes;
      }
      if (this.#end?.failure) throw this.#end.failure;
      if (this.#end) return undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #framed(message: MessageInitShape<I>): Buffer {
    const bytes = toBinary(this.#method.input, create(this.#method.input, message));
    if (bytes.length > this.#limits.writeBytes) throw new Error(`a message would be ${bytes.length} bytes long`);
    const framed = Buffer.allocUnsafe(PREFIX_BYTES + bytes.length);
    framed[0] = 0;
    framed.writeUInt32BE(bytes.length, 1);
    framed.set(bytes, PREFIX_BYTES);
    return framed;
  }

  #checkStatus(): void {
    const head = this.#head;
    if (head?.[':status'] !== 200) throw new Error('the reply is no gRPC');
    // A reply without messages may have its status in the headers.
    const source = this.#trailers['grpc-status'] === undefined ? head : this.#trailers;
    const status = source['grpc-status'];
    if (status === undefined) throw new Error('the reply has no status');
    const number = /^\d{1,2}$/.test(String(status)) ? Number(status) : STATUS_UNKNOWN;
    if (number !== STATUS_OK) throw new StatusError(number, decoded(String(source['grpc-message'] ?? '')));
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
