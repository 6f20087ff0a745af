/**
 * Streams to a client. One item is asked of the source, written, and only when the socket has room the next is asked for:
 * that is the whole of back-pressure, and memory stays that of one item and one socket buffer.
 */
import type { ServerResponse } from 'node:http';
import { READER_STALL_MS } from './limits.ts';

/** The client is no longer there; nobody can be told anything. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

/** A source whose first item was already asked for, so that its first error can still become an answer. */
export interface Opened<T> {
  readonly first: IteratorResult<T, unknown>;
  readonly iterator: AsyncIterator<T, unknown>;
}

export async function open<T>(source: AsyncIterable<T>): Promise<Opened<T>> {
  const iterator = source[Symbol.asyncIterator]();
  return { first: await iterator.next(), iterator };
}

/** All items of an opened source. Leaving the loop early ends the source. */
export async function* itemsOf<T>({ first, iterator }: Opened<T>): AsyncGenerator<T> {
  let item = first;
  try {
    while (!item.done) {
      yield item.value;
      item = await iterator.next();
    }
  } finally {
    if (!item.done) await iterator.return?.();
  }
}

/** Ends a source that will not be read. */
export async function discard<T>({ first, iterator }: Opened<T>): Promise<void> {
  if (!first.done) await iterator.return?.();
}

/** Writes, and waits until there is room for more. */
export async function write(response: ServerResponse, bytes: Uint8Array | string): Promise<void> {
  if (response.destroyed || response.closed) throw new ClientGone();
  if (!response.write(bytes)) await drained(response);
}

function drained(response: ServerResponse): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onClose = () => settle(() => reject(new ClientGone()));
  const onDrain = () => settle(resolve);
  // A reader that takes nothing for this long is taken for dead; the close that follows settles the wait.
  const timer = setTimeout(() => response.destroy(), READER_STALL_MS);
  const settle = (then: () => void) => {
    clearTimeout(timer);
    response.off('drain', onDrain).off('close', onClose);
    then();
  };
  response.on('drain', onDrain).on('close', onClose);
  if (response.destroyed) onClose();
  return promise;
}
