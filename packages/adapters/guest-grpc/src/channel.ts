/**
 * One port of the guest for gRPC calls: link, HTTP/2 session, exchanges. The session is made once and never
 * reconnects: when it is gone, so is the guest's channel. No pings are sent, so an idle VM stays idle.
 *
 * Flow control bounds memory per stream (`streamWindowBytes`); Node credits the connection's window as bytes arrive, so a
 * reader that lags holds up its own stream and no other.
 */
import * as http2 from 'node:http2';
import type { Duplex } from 'node:stream';
import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { AppError } from '@space/core';
import { Exchange, type MessageLimits, type Method } from './exchange.ts';
import type { Fate } from './fate.ts';
import { Link } from './link.ts';

/** Only a name: nothing is resolved. */
const AUTHORITY = 'http://guest';
const MESSAGE_LIMITS: MessageLimits = {
  // A part of a listing is at most 64 KiB; that of an older agent 256 entries of a name and a link target, about 1.2 MB.
  readBytes: 2 * 1024 * 1024,
  writeBytes: 256 * 1024,
};
/** What Node may hold for one session, in megabytes; streams end with an error beyond it. */
const SESSION_MEMORY_MB = 32;
const MAX_HEADER_BYTES = 16 * 1024;

export interface ChannelOptions {
  readonly openLimitMs: number;
  readonly streamWindowBytes: number;
  readonly sessionWindowBytes: number;
}

export class Channel {
  readonly fate: Fate;
  /** Settles when the agent has answered the handshake; rejects when it has not. */
  readonly opened: Promise<void>;
  /** The calls under way: each is told when the channel is gone, whatever it waits for. */
  readonly calls = new Set<{ lose(): void }>();
  readonly #link: Link;
  readonly #session: http2.ClientHttp2Session;

  constructor(raw: Duplex, fate: Fate, options: ChannelOptions) {
    this.fate = fate;
    const link = new Link(raw, options);
    this.#link = link;
    this.opened = link.opened;
    this.#session = http2.connect(AUTHORITY, {
      createConnection: () => link,
      maxSessionMemory: SESSION_MEMORY_MB,
      maxReservedRemoteStreams: 0,
      settings: {
        enablePush: false,
        initialWindowSize: options.streamWindowBytes,
        maxHeaderListSize: MAX_HEADER_BYTES,
      },
    });
    this.#watch(options);
  }

  /** True from the first sign of the end on; the reason follows in `fate`. */
  get gone(): boolean {
    return this.fate.gone || this.#link.destroyed || this.#session.destroyed;
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    request: MessageInitShape<I>,
    signal: AbortSignal,
  ): Promise<MessageShape<O>> {
    const exchange = new Exchange(this.#session, method, MESSAGE_LIMITS, signal);
    exchange.finish(request);
    return exchange.reply();
  }

  async *serverStream<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    request: MessageInitShape<I>,
    signal: AbortSignal,
  ): AsyncGenerator<MessageShape<O>, void, undefined> {
    const exchange = new Exchange(this.#session, method, MESSAGE_LIMITS, signal);
    exchange.finish(request);
    yield* exchange.replies();
  }

  /** Asks for the next message when the agent has room for it. A failure of `messages` cancels the call. */
  async clientStream<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    messages: AsyncIterable<MessageInitShape<I>>,
    signal: AbortSignal,
  ): Promise<MessageShape<O>> {
    const exchange = new Exchange(this.#session, method, MESSAGE_LIMITS, signal);
    const send = async (): Promise<void> => {
      for await (const message of messages) {
        if (exchange.closed) return;
        await exchange.send(message);
      }
      exchange.finish();
    };
    send().catch(() => exchange.cancel());
    return exchange.reply();
  }

  /** Messages both ways, at the pace of who sends and who reads. */
  exchange<I extends DescMessage, O extends DescMessage>(method: Method<I, O>, signal: AbortSignal): Exchange<I, O> {
    return new Exchange(this.#session, method, MESSAGE_LIMITS, signal);
  }

  /** Ends the session at once; whole frames already written are flushed. */
  destroy(): void {
    for (const call of this.calls) call.lose();
    this.#session.destroy();
    this.#link.destroy();
  }

  #watch(options: ChannelOptions): void {
    const session = this.#session;
    const link = this.#link;
    let failure: Error | undefined;
    session.on('connect', () => {
      // Node emits this even when the session was destroyed meanwhile.
      if (!session.destroyed) session.setLocalWindowSize(options.sessionWindowBytes);
    });
    session.on('error', (error) => {
      failure = error;
    });
    session.on('goaway', () => this.fate.lose(new AppError('link_lost', 'The agent ended the session.')));
    // The session's error is set first when the agent breaks HTTP/2; the link's when it breaks the link.
    const lost = (): void => this.fate.lose(reasonOf(link.errored ?? failure));
    link.on('close', lost);
    session.on('close', lost);
  }
}

function reasonOf(failure: Error | undefined): AppError {
  if (failure instanceof AppError) return failure;
  if (failure === undefined) return new AppError('link_lost', 'The session with the agent ended.');
  return new AppError('link_lost', 'The session with the agent broke.', { cause: failure });
}
