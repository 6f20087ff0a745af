/** The bytes of a request body, at the pace of whoever reads them, with a limit on how long the sender may take. */
import { Readable } from 'node:stream';
import { HttpError } from './errors.ts';
import type { EnvdRequest } from './http.ts';

/** Between two pieces. */
const IDLE_MS = 60_000;

/** Leaving it early leaves the connection open, so that an answer can still be sent. */
export function pacedBody(request: EnvdRequest): Readable {
  return Readable.from(pieces(request), { objectMode: false, highWaterMark: 64 * 1024 });
}

async function* pieces(request: EnvdRequest): AsyncGenerator<Uint8Array> {
  const iterator: AsyncIterator<Uint8Array> = request.iterator({ destroyOnReturn: false });
  try {
    for (;;) {
      const item = await within(IDLE_MS, iterator.next());
      if (item.done) return;
      yield item.value;
    }
  } finally {
    // Not awaited: after a time-out the iterator still waits for a piece.
    iterator.return?.().catch(() => undefined);
  }
}

async function within<T>(waitMs: number, promise: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new HttpError(408, 'the body comes too slowly')), waitMs);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
