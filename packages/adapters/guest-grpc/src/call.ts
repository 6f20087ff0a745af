/**
 * One call to the agent: its signal (the caller's, or our own limit on silence) and the translation of whatever ends it.
 * A limit counts only while we wait for the agent, never while the caller takes its time.
 */
import { AppError } from '@space/core';
import type { Channel } from './channel.ts';
import { type CallKind, errorOfCall } from './errors.ts';

export class Call {
  readonly #channel: Channel;
  readonly #outer: AbortSignal | undefined;
  readonly #controller = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  /** The wait that is counted now; a later one, or none, takes its place. */
  #wait: symbol | undefined;

  constructor(channel: Channel, outer?: AbortSignal) {
    this.#channel = channel;
    this.#outer = outer;
    outer?.addEventListener('abort', this.#onAbort);
    if (outer?.aborted) this.#onAbort();
    channel.calls.add(this);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Waits for the handshake: for calls that must not reach the agent twice. An abort ends the wait. */
  async ready(): Promise<void> {
    const { signal } = this;
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort);
    try {
      signal.throwIfAborted();
      await Promise.race([this.#channel.opened, aborted]);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** From the handshake on, the agent has this long for its next sign of life. */
  expectWithin(limitMs: number): void {
    this.rest();
    const wait = Symbol();
    this.#wait = wait;
    const arm = (): void => {
      if (this.#wait === wait) this.#timer = setTimeout(() => this.#giveUp(limitMs), limitMs);
    };
    this.#channel.opened.then(arm, () => {});
  }

  /** We wait for the caller now, not for the agent. */
  rest(): void {
    clearTimeout(this.#timer);
    this.#wait = undefined;
  }

  /** The channel is gone: nothing that the call waits for will come. */
  lose(): void {
    this.#controller.abort(new AppError('link_lost', 'The connection to the guest is gone.'));
  }

  /** The call is over; when its stream is still open, it ends at the agent too. */
  end(): void {
    this.rest();
    this.#channel.calls.delete(this);
    this.#outer?.removeEventListener('abort', this.#onAbort);
    this.#controller.abort(new AppError('link_lost', 'The call is over.'));
  }

  /** What to throw for what was thrown. */
  async failure(kind: CallKind, thrown: unknown): Promise<unknown> {
    if (this.#outer?.aborted) return this.#outer.reason;
    if (this.#channel.gone) return this.#channel.fate.settled;
    if (this.signal.aborted) return this.signal.reason;
    return errorOfCall(kind, thrown);
  }

  #giveUp(limitMs: number): void {
    this.#controller.abort(new AppError('agent_lost', `The agent did not answer in ${limitMs} ms.`));
  }

  readonly #onAbort = (): void => this.#controller.abort(this.#outer?.reason);
}

/** A call with one reply, within a limit. */
export async function callOnce<T>(
  channel: Channel,
  options: { readonly kind: CallKind; readonly limitMs: number; readonly repeatable: boolean },
  send: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const call = new Call(channel);
  try {
    if (!options.repeatable) await call.ready();
    call.expectWithin(options.limitMs);
    return await send(call.signal);
  } catch (thrown) {
    throw await call.failure(options.kind, thrown);
  } finally {
    call.end();
  }
}
