/** A tunnel: one TCP connection, to a port of the guest or out of it, as one call to the agent. */
import type { MessageInitShape } from '@bufbuild/protobuf';
import { AppError, type PortConnection } from '@space/core';
import { type DialReply, type DialReplySchema, type DialRequestSchema, Tunnels } from '@space/guest-proto';
import { Call } from './call.ts';
import type { Channel } from './channel.ts';
import { brokenContract } from './errors.ts';
import type { Exchange } from './exchange.ts';
import type { Limits } from './limits.ts';

const PART_BYTES = 32 * 1024;

type Dialled = Exchange<typeof DialRequestSchema, typeof DialReplySchema>;

interface Traffic {
  readonly channel: Channel;
  readonly limits: Limits;
}

export function openPort(traffic: Traffic, port: number, signal?: AbortSignal): Promise<PortConnection> {
  return open(traffic, Tunnels.method.dial, { case: 'port', value: port }, signal);
}

/** Takes over a connection that the agent has told of. */
export function carry(traffic: Traffic, connection: bigint, signal?: AbortSignal): Promise<PortConnection> {
  return open(traffic, Tunnels.method.carry, { case: 'connection', value: connection }, signal);
}

async function open(
  { channel, limits }: Traffic,
  method: typeof Tunnels.method.dial | typeof Tunnels.method.carry,
  part: NonNullable<MessageInitShape<typeof DialRequestSchema>['part']>,
  signal?: AbortSignal,
): Promise<PortConnection> {
  const call = new Call(channel, signal);
  try {
    // A request that reached the agent twice would be two connections.
    await call.ready();
    call.expectWithin(limits.dialMs);
    const exchange = channel.exchange(method, call.signal);
    await exchange.send({ part });
    const replies = exchange.replies();
    const first = await replies.next();
    if (first.done || first.value.part.case !== 'connected')
      throw brokenContract('a tunnel began without a connection');
    call.rest();
    return new Tunnel(call, exchange, replies);
  } catch (thrown) {
    const error = await call.failure('dial', thrown);
    call.end();
    throw error;
  }
}

class Tunnel implements PortConnection {
  readonly closed: Promise<void>;
  readonly output: AsyncIterable<Uint8Array>;
  readonly #call: Call;
  readonly #exchange: Dialled;
  readonly #replies: AsyncIterator<DialReply>;
  /** Our side has ended, and the guest's. */
  #ended = false;
  #guestEnded = false;

  constructor(call: Call, exchange: Dialled, replies: AsyncIterator<DialReply>) {
    this.#call = call;
    this.#exchange = exchange;
    this.#replies = replies;
    this.output = { [Symbol.asyncIterator]: () => ({ next: () => this.#next(), return: () => this.#leave() }) };
    this.closed = exchange.whenClosed.then(() => call.end());
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let start = 0; start < bytes.length; start += PART_BYTES) {
      if (this.#ended) throw new AppError('link_lost', 'Our side of the connection has ended.');
      await this.#exchange.send({ part: { case: 'data', value: bytes.subarray(start, start + PART_BYTES) } });
      if (this.#exchange.closed) throw await this.#call.failure('dial', new Error('the connection is gone'));
    }
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#exchange.finish({ part: { case: 'end', value: {} } });
  }

  reset(): void {
    if (!this.#ended || !this.#guestEnded) this.#call.end();
  }

  async #next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#guestEnded) return { done: true, value: undefined };
    try {
      const { done, value } = await this.#replies.next();
      if (done) throw brokenContract('a tunnel closed without an end');
      if (value.part.case === 'data') return { done: false, value: value.part.value };
      if (value.part.case !== 'end') throw brokenContract('a reply of a tunnel is unknown');
    } catch (thrown) {
      const error = await this.#call.failure('dial', thrown);
      this.#call.end();
      throw error;
    }
    this.#guestEnded = true;
    // Nothing but the status comes after it, once our side has ended too. How that is matters to nobody.
    void this.#replies.next().catch(() => undefined);
    return { done: true, value: undefined };
  }

  async #leave(): Promise<IteratorResult<Uint8Array>> {
    this.reset();
    return { done: true, value: undefined };
  }
}
