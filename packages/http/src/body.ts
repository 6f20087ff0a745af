/** The bytes of a request body, at the reader's pace, with a limit on how long the sender may take. */
import type { Readable } from 'node:stream';
import { ProtocolError } from '@space/contract';

export type Patience =
  /** Between two pieces. */
  | { readonly idleMs: number }
  /** For the whole. */
  | { readonly totalMs: number };

/**
 * Throws when the client vanishes before the end, or is too slow. Leaving the loop early leaves the connection open, so
 * that an answer can still be sent.
 */
export async function* readBody(request: Readable, patience: Patience): AsyncGenerator<Uint8Array> {
  const deadline = 'totalMs' in patience ? performance.now() + patience.totalMs : undefined;
  const iterator: AsyncIterator<Uint8Array> = request.iterator({ destroyOnReturn: false });
  try {
    for (;;) {
      const waitMs = 'idleMs' in patience ? patience.idleMs : (deadline ?? 0) - performance.now();
      const item = await within(waitMs, iterator.next());
      if (item.done) return;
      yield item.value;
    }
  } finally {
    // Not awaited: after a timeout the iterator still waits for a piece.
    iterator.return?.().catch(() => undefined);
  }
}

async function within<T>(waitMs: number, promise: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new ProtocolError('request_too_slow')), Math.max(0, waitMs));
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
