/**
 * The link between control and node, as the real one behaves (see `packages/link`): a call that was not begun, or may be
 * repeated, fails as `node_unavailable`; one that was cut as `link_lost`, and what it did goes on on the node. News of lives
 * come while both are up, and are found out anew when the link is made again.
 */
import { AppError, asAppError, type LifeEnd, type NodePort, type SpaceNews } from '@space/core';
import { NODE_CALLS, type NodeCall } from '@space/link';
import type { Process, Steps } from './steps.ts';

interface Line {
  /** Rejects when it is cut. */
  readonly cut: Promise<never>;
  close(): void;
}

/** A node that answers. */
export interface Served {
  readonly process: Process;
  readonly port: NodePort;
  /** Open calls, and what cuts each. */
  readonly lines: Set<() => void>;
}

/** What takes long, and is given up by the node when nobody waits for it. */
const OF_ARCHIVES: readonly NodeCall[] = ['exportPoints', 'importPoints', 'handOver', 'arrive', 'collectArchives'];

interface Begun {
  readonly served: Served;
  readonly line: Line;
  /** What the node is given beside what the call says. */
  readonly far: readonly AbortSignal[];
}

type Method = (...args: unknown[]) => unknown;

/** How long it takes to be made again. */
const AGAIN_MS = 120;

export class SimulatedLink {
  readonly port: NodePort;
  readonly #steps: Steps;
  readonly #process: Process;
  readonly #node: () => Served | null;
  readonly #lifeEnded = new Set<(end: LifeEnd) => void>();
  readonly #space = new Set<(news: SpaceNews) => void>();
  readonly #back = new Set<() => void>();

  constructor(steps: Steps, process: Process, node: () => Served | null) {
    this.#steps = steps;
    this.#process = process;
    this.#node = node;
    const calls = (Object.keys(NODE_CALLS) as NodeCall[]).map((name) => [name, this.#method(name)]);
    this.port = {
      ...(Object.fromEntries(calls) as Pick<NodePort, NodeCall>),
      onLifeEnded: (listener) => added(this.#lifeEnded, listener),
      onSpace: (listener) => added(this.#space, listener),
      onBack: (listener) => added(this.#back, listener),
    };
  }

  /** Follows the news of a node for as long as both live. */
  follow(served: Served): void {
    const { time } = this.#steps;
    const isUp = () => this.#process.alive && served.process.alive;
    const stops = [
      served.port.onLifeEnded((end) => time.after(1, () => isUp() && this.#tell(end))),
      served.port.onSpace((news) => time.after(1, () => isUp() && this.#tellOfSpace(news))),
    ];
    const cut = () => {
      for (const stop of stops) stop();
      served.lines.delete(cut);
      time.after(AGAIN_MS, () => isUp() && this.follow(served));
    };
    served.lines.add(cut);
    // As the real one: what ended while nobody listened, then that it is back.
    time.after(1, () => void this.#cameUp(isUp).catch(() => undefined));
  }

  async #cameUp(isUp: () => boolean): Promise<void> {
    for (const { sandboxId, real, life } of await this.port.inspectAll()) {
      if (real !== 'crashed' || life === null) continue;
      this.#tell({ sandboxId, lifeId: life, detail: 'The microVM had ended when the node was asked again.' });
    }
    if (isUp()) for (const listener of this.#back) listener();
  }

  #tell(end: LifeEnd): void {
    for (const listener of this.#lifeEnded) listener(end);
  }

  #tellOfSpace(news: SpaceNews): void {
    for (const listener of this.#space) listener(news);
  }

  #method(name: NodeCall): Method {
    return NODE_CALLS[name] === 'stream' ? (...args) => this.#stream(name, args) : (...args) => this.#once(name, args);
  }

  async #once(name: NodeCall, args: readonly unknown[]): Promise<unknown> {
    const { served, line, far } = await this.#begin(name, args.find(isSignal));
    try {
      const answer = (served.port[name] as Method)(...structuredClone(args.filter((arg) => !isSignal(arg))), ...far);
      const learned = Promise.resolve(answer).then(
        async (value) => {
          await this.#steps.take(this.#process, { port: 'link', call: name, at: 'end' });
          return structuredClone(value);
        },
        async (thrown: unknown) => {
          await this.#steps.take(this.#process, { port: 'link', call: name, at: 'end' });
          throw thrown;
        },
      );
      return await Promise.race([learned.catch((thrown: unknown) => this.#explain(name, thrown)), line.cut]);
    } finally {
      line.close();
    }
  }

  async *#stream(name: NodeCall, args: readonly unknown[]): AsyncGenerator<unknown, void> {
    const { served, line, far } = await this.#begin(name, args.find(isSignal));
    try {
      const items = (served.port[name] as Method)(
        ...structuredClone(args.filter((arg) => !isSignal(arg))),
        ...far,
      ) as AsyncIterable<unknown>;
      const iterator = items[Symbol.asyncIterator]();
      for (;;) {
        const item = iterator.next();
        item.catch(() => undefined);
        const { done, value } = await Promise.race([
          item.catch((thrown: unknown) => {
            throw asAppError(thrown);
          }),
          line.cut,
        ]);
        if (done) return;
        await Promise.race([this.#steps.take(this.#process, { port: 'link', call: name, at: 'end' }), line.cut]);
        yield structuredClone(value);
      }
    } finally {
      line.close();
    }
  }

  async #begin(name: NodeCall, signal: AbortSignal | undefined): Promise<Begun> {
    await this.#steps.take(this.#process, { port: 'link', call: name, at: 'begin' });
    const served = this.#node();
    if (served === null) throw new AppError('node_unavailable', 'The node does not answer now.');
    const { promise: cut, reject } = Promise.withResolvers<never>();
    cut.catch(() => undefined);
    const gone = new AbortController();
    const hangUp = () => gone.abort(new AppError('link_lost', 'The caller is gone.'));
    const onCut = () => {
      reject(lostCall(name));
      hangUp();
    };
    const onAbort = () => {
      reject(signal?.reason);
      hangUp();
    };
    served.lines.add(onCut);
    signal?.addEventListener('abort', onAbort);
    if (signal?.aborted) onAbort();
    const close = () => {
      served.lines.delete(onCut);
      signal?.removeEventListener('abort', onAbort);
      // Who reads no further.
      hangUp();
    };
    return { served, line: { cut, close }, far: OF_ARCHIVES.includes(name) ? [gone.signal] : [] };
  }

  /** An answer that is lost on its way leaves the call cut. */
  #explain(name: NodeCall, thrown: unknown): never {
    const isLost = thrown instanceof AppError && thrown.code === 'node_unavailable';
    throw isLost ? lostCall(name) : asAppError(thrown);
  }
}

function lostCall(name: NodeCall): AppError {
  return NODE_CALLS[name] === 'read'
    ? new AppError('node_unavailable', 'The node does not answer now.')
    : new AppError('link_lost', 'The node ended during the call; its sandboxes run on.');
}

function isSignal(arg: unknown): arg is AbortSignal {
  return arg instanceof AbortSignal;
}

function added<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
