/** The side that asks: a line for each call, and one way to say how it ended. */
import { connect, type Socket } from 'node:net';
import { AppError, type PortConnection } from '@space/core';
import { sendBody } from './bodies.ts';
import type { CallKind, Method } from './calls.ts';
import { failureFrom } from './failure.ts';
import { copy, LentConnection } from './lent.ts';
import { FRAME, type Frame, type FrameKind, frameOf, Line, MAX_BODY_BYTES } from './line.ts';
import { newTicket } from './tickets.ts';
import { packValue, unpackValue } from './values.ts';

/** What the errors of a broken line call the other side. */
export interface Peer {
  readonly socketPath: string;
  /** The error of a call that was not begun, or may be repeated. */
  readonly unreachable: (cause: unknown) => AppError;
  /** The error of a call that was cut: what it did is not known. */
  readonly lost: (cause: unknown) => AppError;
  readonly traceparent?: (() => string | undefined) | undefined;
}

export class Dialer {
  readonly #peer: Peer;
  readonly #open = new Set<Exchange>();

  constructor(peer: Peer) {
    this.#peer = peer;
  }

  /** A method that is carried out on the other side. */
  method(name: string, kind: CallKind): Method {
    switch (kind) {
      case 'call':
      case 'read':
      case 'abortable':
        return (...args) => this.#once(name, kind, args);
      case 'stream':
        return (...args) => this.#stream(name, args);
      case 'download':
        return (...args) => this.#download(name, args);
      case 'upload':
        return (...args) => this.#upload(name, args);
      case 'connect':
        return (...args) => this.#connect(name, args);
      case 'lend':
        return (...args) => this.#lend(name, args);
    }
  }

  /** Gives up all calls that are open: the other side does not answer. */
  hangUp(): void {
    for (const exchange of this.#open) exchange.end();
  }

  async #once(name: string, kind: CallKind, given: readonly unknown[]): Promise<unknown> {
    const { args, signal } = withoutSignal(given);
    const exchange = this.#begin(signal, kind === 'read');
    try {
      await exchange.call(name, args);
      return unpackValue((await exchange.expect(FRAME.reply)).payload);
    } catch (thrown) {
      throw exchange.explain(thrown);
    } finally {
      exchange.end();
    }
  }

  async *#stream(name: string, given: readonly unknown[]): AsyncGenerator<unknown, void> {
    const { args, signal } = withoutSignal(given);
    const exchange = this.#begin(signal);
    try {
      await exchange.call(name, args);
      for (;;) {
        const frame = await exchange.expect(FRAME.item, FRAME.end);
        if (frame.kind === FRAME.end) return;
        yield unpackValue(frame.payload);
      }
    } catch (thrown) {
      throw exchange.explain(thrown);
    } finally {
      exchange.end();
    }
  }

  async #download(name: string, given: readonly unknown[]): Promise<unknown> {
    const { args, signal } = withoutSignal(given);
    const exchange = this.#begin(signal);
    try {
      await exchange.call(name, args);
      const reply = unpackValue((await exchange.expect(FRAME.reply)).payload) as object;
      return { ...reply, body: downloaded(exchange) };
    } catch (thrown) {
      const failure = exchange.explain(thrown);
      exchange.end();
      throw failure;
    }
  }

  async #upload(name: string, given: readonly unknown[]): Promise<unknown> {
    const { args: all, signal } = withoutSignal(given);
    const body = all.at(-1) as AsyncIterable<Uint8Array>;
    const exchange = this.#begin(signal);
    let broken: { readonly thrown: unknown } | undefined;
    try {
      await exchange.call(name, all.slice(0, -1));
      // The answer may come before the whole body is sent: the line is closed then, and the sending ends.
      sendBody(exchange.line, body).catch((thrown: unknown) => {
        broken = { thrown };
        exchange.line.close();
      });
      return unpackValue((await exchange.expect(FRAME.reply)).payload);
    } catch (thrown) {
      throw broken === undefined ? exchange.explain(thrown) : broken.thrown;
    } finally {
      exchange.end();
    }
  }

  async #connect(name: string, given: readonly unknown[]): Promise<PortConnection> {
    const { args, signal } = withoutSignal(given);
    const exchange = this.#begin(signal);
    try {
      await exchange.call(name, args);
      await exchange.expect(FRAME.reply);
      return new FarConnection(exchange);
    } catch (thrown) {
      const failure = exchange.explain(thrown);
      exchange.end();
      throw failure;
    }
  }

  async #lend(name: string, given: readonly unknown[]): Promise<void> {
    const { args: all, signal } = withoutSignal(given);
    const own = all.at(-1) as PortConnection;
    const exchange = this.#begin(signal);
    let broken: { readonly thrown: unknown } | undefined;
    const ticket = newTicket();
    const far = new LentConnection(exchange.line, this.#beside(exchange, ticket));
    try {
      await exchange.call(name, all.slice(0, -1), ticket);
      // What fails since the far side is gone says nothing of why.
      const breakOff = (thrown: unknown): void => {
        if (!far.over) broken ??= { thrown };
        exchange.line.close();
      };
      const delivered = copy(far, own).catch(breakOff);
      copy(own, far).catch(breakOff);
      const last = await far.last;
      if (last?.kind === FRAME.failure) throw failureFrom(unpackValue(last.payload));
      if (last?.kind !== FRAME.reply) throw new Error('the other side ended');
      // What it has sent is still delivered.
      await delivered;
    } catch (thrown) {
      throw broken === undefined ? exchange.explain(thrown) : broken.thrown;
    } finally {
      exchange.end();
      far.reset();
      own.reset();
    }
  }

  /** A connection for bytes alone, which says by the ticket which call it is of. */
  #beside(exchange: Exchange, ticket: Uint8Array): Socket {
    const socket = connect({ path: this.#peer.socketPath, allowHalfOpen: true });
    socket.once('error', () => {
      if (socket.bytesWritten === 0) exchange.end();
    });
    socket.write(frameOf(FRAME.ticket, ticket));
    return socket;
  }

  #begin(signal: AbortSignal | undefined, repeatable = false): Exchange {
    const exchange = new Exchange(this.#peer, signal, repeatable);
    this.#open.add(exchange);
    exchange.line.onGone(() => this.#open.delete(exchange));
    return exchange;
  }
}

async function* downloaded(exchange: Exchange): AsyncGenerator<Uint8Array, void> {
  try {
    for (;;) {
      const frame = await exchange.expect(FRAME.body, FRAME.end);
      if (frame.kind === FRAME.end) return;
      yield frame.payload;
    }
  } catch (thrown) {
    throw exchange.explain(thrown);
  } finally {
    exchange.end();
  }
}

/** A connection that the other side holds. It is over when the line is closed, which either side does. */
class FarConnection implements PortConnection {
  readonly closed: Promise<void>;
  readonly output: AsyncIterable<Uint8Array>;
  readonly #exchange: Exchange;
  #ended = false;
  #farEnded = false;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
    this.output = this.#read();
    this.closed = new Promise((resolve) => exchange.line.onGone(resolve));
  }

  async write(bytes: Uint8Array): Promise<void> {
    const { line } = this.#exchange;
    for (let offset = 0; offset < bytes.length; offset += MAX_BODY_BYTES) {
      await line.send(FRAME.body, [bytes.subarray(offset, offset + MAX_BODY_BYTES)]);
      if (line.gone) throw this.#exchange.explain(new Error('the line is closed'));
    }
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    void this.#exchange.line.send(FRAME.end).then(() => this.#endIfBothHave());
  }

  reset(): void {
    if (!this.#ended || !this.#farEnded) this.#exchange.end();
  }

  async *#read(): AsyncGenerator<Uint8Array, void> {
    try {
      for (;;) {
        const frame = await this.#exchange.expect(FRAME.body, FRAME.end);
        if (frame.kind === FRAME.end) break;
        yield frame.payload;
      }
      this.#farEnded = true;
      this.#endIfBothHave();
    } catch (thrown) {
      throw this.#exchange.explain(thrown);
    } finally {
      if (!this.#farEnded) this.#exchange.end();
    }
  }

  #endIfBothHave(): void {
    if (!this.#ended || !this.#farEnded) return;
    // The other side closes the line once it has read our end.
    this.#exchange.line.finish();
    this.#exchange.line.discard();
  }
}

/** One call on its line. */
class Exchange {
  readonly line: Line;
  readonly #peer: Peer;
  readonly #signal: AbortSignal | undefined;
  readonly #repeatable: boolean;
  readonly #connected: Promise<void>;
  #begun = false;

  constructor(peer: Peer, signal: AbortSignal | undefined, repeatable: boolean) {
    signal?.throwIfAborted();
    this.#peer = peer;
    this.#signal = signal;
    this.#repeatable = repeatable;
    const socket = connect(peer.socketPath);
    this.line = new Line(socket);
    this.#connected = connected(socket);
    this.#connected.catch(() => undefined);
    signal?.addEventListener('abort', this.#onAbort);
    this.line.onGone(() => signal?.removeEventListener('abort', this.#onAbort));
  }

  async call(method: string, args: readonly unknown[], ticket?: Uint8Array): Promise<void> {
    await this.#connected;
    this.#begun = true;
    const traceparent = this.#peer.traceparent?.();
    const more = { ...(traceparent === undefined ? {} : { traceparent }), ...(ticket === undefined ? {} : { ticket }) };
    await this.line.send(FRAME.call, packValue({ method, args, ...more }));
  }

  /** The next frame of one of the kinds; throws the failure that came in its place. */
  async expect(...kinds: readonly FrameKind[]): Promise<Frame> {
    const frame = await this.line.read();
    if (frame === undefined) throw new Error('the other side ended');
    if (frame.kind === FRAME.failure) throw failureFrom(unpackValue(frame.payload));
    if (!kinds.some((kind) => kind === frame.kind)) throw new Error(`a frame of kind ${frame.kind} came out of turn`);
    return frame;
  }

  /** What to throw for what was thrown. */
  explain(thrown: unknown): unknown {
    if (this.#signal?.aborted) return this.#signal.reason;
    if (thrown instanceof AppError) return thrown;
    return this.#begun && !this.#repeatable ? this.#peer.lost(thrown) : this.#peer.unreachable(thrown);
  }

  end(): void {
    this.line.close();
  }

  readonly #onAbort = (): void => this.end();
}

function connected(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    const closed = (): void => reject(new Error('the connection was closed'));
    socket.once('error', reject).once('close', closed);
    socket.once('connect', () => {
      socket.off('error', reject).off('close', closed);
      resolve();
    });
  });
}

/** Optional arguments at the end that are left out do not travel, and neither does the signal. */
function withoutSignal(given: readonly unknown[]): { args: readonly unknown[]; signal: AbortSignal | undefined } {
  const last = given.at(-1);
  const signal = last instanceof AbortSignal ? last : undefined;
  const args = signal === undefined ? [...given] : given.slice(0, -1);
  while (args.length > 0 && args.at(-1) === undefined) args.pop();
  return { args, signal };
}
