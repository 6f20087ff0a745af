/** A node, served to the process that gives it orders. */
import { AppError, type LifeEnd, type NodePort, type SpaceNews, type Tracer } from '@space/core';
import type { Method } from './calls.ts';
import { checkNodeArgs, NODE_CALLS, type NodeCall, SERVED_CALLS } from './node-calls.ts';
import { type Service, serveCalls } from './serve.ts';

/** How often it says that it is there: the other side takes silence for the end. */
export const SIGN_OF_LIFE_MS = 2_000;
/** News that a reader has not taken. Beyond it the line is cut, and the reader finds out what is real. */
const MAX_UNREAD_NEWS = 10_000;

export type News =
  | { readonly kind: 'here' }
  | ({ readonly kind: 'life_ended' } & LifeEnd)
  | { readonly kind: 'space'; readonly news: SpaceNews };

export interface ServeNodeOptions {
  readonly node: NodePort;
  /** Whoever may write to it gives orders: it lies in a folder that only the owner and the group may enter. */
  readonly socketPath: string;
  readonly onUnexpected: (thrown: unknown, method: string) => void;
  readonly tracer?: Tracer;
}

export function serveNode({ node, socketPath, onUnexpected, tracer }: ServeNodeOptions): Promise<Service> {
  const calls = Object.keys(NODE_CALLS) as NodeCall[];
  const methods: Record<string, Method> = { news: (signal: AbortSignal) => tellNews(node, signal) };
  for (const name of calls) methods[name] = (...args) => (node[name] as Method)(...args);
  return serveCalls({
    socketPath,
    calls: SERVED_CALLS,
    methods,
    check: checkNodeArgs,
    onUnexpected,
    tracer,
  });
}

async function* tellNews(node: NodePort, signal: AbortSignal): AsyncGenerator<News, void> {
  const unread: News[] = [{ kind: 'here' }];
  let wake = (): void => undefined;
  const push = (news: News): void => {
    // One beyond the limit is enough to have the line cut, also by a reader that does not come back.
    if (unread.length <= MAX_UNREAD_NEWS) unread.push(news);
    wake();
  };
  const stopEnds = node.onLifeEnded((end) => push({ kind: 'life_ended', ...end }));
  const stopSpace = node.onSpace((about) => push({ kind: 'space', news: about }));
  const signs = setInterval(() => {
    if (unread.length === 0) push({ kind: 'here' });
  }, SIGN_OF_LIFE_MS);
  const onAbort = (): void => wake();
  signal.addEventListener('abort', onAbort);
  try {
    while (!signal.aborted) {
      if (unread.length > MAX_UNREAD_NEWS) throw new AppError('link_lost', 'The news was not read.');
      const news = unread.shift();
      if (news !== undefined) yield news;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  } finally {
    signal.removeEventListener('abort', onAbort);
    clearInterval(signs);
    stopEnds();
    stopSpace();
  }
}
