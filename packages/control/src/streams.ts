/**
 * A stream that can be stopped at any time. An async generator that awaits cannot: its `return()` waits in line. Here
 * `return()` aborts the signal that the generator was given, and what it then throws is the end.
 */
export function stoppable<T>(
  outer: AbortSignal,
  start: (signal: AbortSignal) => AsyncGenerator<T, void>,
): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]() {
      const stop = new AbortController();
      const generator = start(AbortSignal.any([outer, stop.signal]));
      const ended: IteratorResult<T> = { done: true, value: undefined };
      return {
        async next() {
          if (stop.signal.aborted) return ended;
          try {
            return await generator.next();
          } catch (thrown) {
            if (stop.signal.aborted) return ended;
            throw thrown;
          }
        },
        async return() {
          stop.abort();
          await generator.return().catch(() => undefined);
          return ended;
        },
      };
    },
  };
}
