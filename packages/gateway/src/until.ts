/** Waiting that ends. */

/** The result, unless the signal aborts first: then its reason is thrown. What is waited for goes on, for whoever else waits. */
export async function until<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let stop: () => void = () => undefined;
  const stopped = new Promise<never>((_resolve, reject) => {
    stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
  return Promise.race([work, stopped]).finally(() => signal.removeEventListener('abort', stop));
}

/**
 * Work with a signal that aborts with the given one, or after a while. Unlike those of `AbortSignal.any` and `timeout` it leaves
 * nothing behind that is woken, or collected, when the work is long done.
 */
export async function within<T>(ms: number, signal: AbortSignal, work: (limit: AbortSignal) => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const limit = new AbortController();
  const abort = (): void => limit.abort(signal.reason);
  const late = setTimeout(() => limit.abort(new Error('It took too long.')), ms);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await work(limit.signal);
  } finally {
    clearTimeout(late);
    signal.removeEventListener('abort', abort);
  }
}
