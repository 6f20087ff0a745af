/**
 * The node port by a node in another process.
 *
 * Beside its calls the link keeps one line open, on which the node says that it is there and which lives ended unasked. When
 * that line breaks or falls silent, every call that is open is given up, and the line is opened again until it holds. Then
 * the node is asked for all it has, and each life that ended meanwhile is told: so the end of a life may be told twice, and
 * is never missed.
 *
 * A call that could not be begun, or does no harm when it is repeated, fails as `node_unavailable`; one that was cut as
 * `link_lost`: what it did is to be found out.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, type LifeEnd, type NodePort, type SpaceNews, type Tracer } from '@space/core';
import { Dialer } from './dial.ts';
import { NODE_CALLS, type NodeCall } from './node-calls.ts';
import { type News, SIGN_OF_LIFE_MS } from './serve-node.ts';

/** A machine that is busy with something else may hold up a process for seconds. */
const SILENCE_MS = 8 * SIGN_OF_LIFE_MS;
const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 500;

export interface RemoteNode extends NodePort {
  /** Settles when the node has answered for the first time; rejects with the signal's reason. */
  whenUp(signal: AbortSignal): Promise<void>;
  /** Gives up what is open. The node is not touched. */
  close(): Promise<void>;
}

export interface ConnectNodeOptions {
  readonly socketPath: string;
  readonly onUp?: () => void;
  readonly onDown?: (cause: unknown) => void;
  readonly tracer?: Tracer;
  /** In place of the time after which silence is the end; for tests. */
  readonly silenceMs?: number;
}

/** Returns at once; the link is made, and made again, in the background. */
export function connectNode(options: ConnectNodeOptions): RemoteNode {
  const dialer = new Dialer({
    socketPath: options.socketPath,
    unreachable: (cause) => new AppError('node_unavailable', 'The node does not answer now.', { cause }),
    lost: (cause) => new AppError('link_lost', 'The node ended during the call; its sandboxes run on.', { cause }),
    traceparent: options.tracer?.traceparent,
  });
  const calls = Object.fromEntries(
    Object.entries(NODE_CALLS).map(([name, kind]) => [name, dialer.method(name, kind)]),
  ) as unknown as Pick<NodePort, NodeCall>;
  const watch = new Watch(options, dialer, calls);
  return {
    ...calls,
    onLifeEnded: (listener) => added(watch.lifeEnded, listener),
    onSpace: (listener) => added(watch.space, listener),
    onBack: (listener) => added(watch.back, listener),
    whenUp: (signal) => watch.whenUp(signal),
    close: () => watch.close(),
  };
}

function added<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

class Watch {
  readonly lifeEnded = new Set<(end: LifeEnd) => void>();
  readonly space = new Set<(news: SpaceNews) => void>();
  readonly back = new Set<() => void>();
  readonly #options: ConnectNodeOptions;
  readonly #dialer: Dialer;
  readonly #node: Pick<NodePort, NodeCall>;
  readonly #news: (signal: AbortSignal) => AsyncIterable<News>;
  readonly #closing = new AbortController();
  readonly #up = Promise.withResolvers<void>();
  readonly #done: Promise<void>;
  #pauseMs = FIRST_PAUSE_MS;
  #wasUp = false;

  constructor(options: ConnectNodeOptions, dialer: Dialer, node: Pick<NodePort, NodeCall>) {
    this.#options = options;
    this.#dialer = dialer;
    this.#node = node;
    this.#news = dialer.method('news', 'stream') as (signal: AbortSignal) => AsyncIterable<News>;
    this.#done = this.#keepUp();
  }

  async whenUp(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort);
    try {
      await Promise.race([this.#up.promise, aborted]);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  async close(): Promise<void> {
    this.#closing.abort(new AppError('node_unavailable', 'The link to the node was closed.'));
    this.#dialer.hangUp();
    await this.#done;
  }

  async #keepUp(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await this.#follow().catch((cause: unknown) => {
        if (this.#wasUp && !signal.aborted) this.#options.onDown?.(cause);
      });
      this.#wasUp = false;
      this.#dialer.hangUp();
      await sleep(this.#pauseMs, undefined, { signal }).catch(() => undefined);
      this.#pauseMs = Math.min(this.#pauseMs * 2, MAX_PAUSE_MS);
    }
  }

  /** For as long as the line holds. */
  async #follow(): Promise<void> {
    const silence = new AbortController();
    const give = () => silence.abort(new AppError('node_unavailable', 'The node fell silent.'));
    const limitMs = this.#options.silenceMs ?? SILENCE_MS;
    const timer = setTimeout(give, limitMs);
    try {
      for await (const news of this.#news(AbortSignal.any([this.#closing.signal, silence.signal]))) {
        timer.refresh();
        if (news.kind === 'life_ended') this.#tell(news);
        if (news.kind === 'space') for (const listener of this.space) listener(news.news);
        if (!this.#wasUp) await this.#cameUp();
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async #cameUp(): Promise<void> {
    for (const { sandboxId, real, life } of await this.#node.inspectAll()) {
      if (real !== 'crashed' || life === null) continue;
      this.#tell({ sandboxId, lifeId: life, detail: 'The microVM had ended when the node was asked again.' });
    }
    this.#wasUp = true;
    this.#pauseMs = FIRST_PAUSE_MS;
    this.#options.onUp?.();
    this.#up.resolve();
    for (const listener of this.back) listener();
  }

  #tell({ sandboxId, lifeId, detail }: LifeEnd): void {
    for (const listener of this.lifeEnded) listener({ sandboxId, lifeId, detail });
  }
}
