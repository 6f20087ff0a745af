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

/** The same items; something is held from when the first is asked for until the last was given or nobody asks any more. */
export function during<T>(items: AsyncIterable<T>, hold: () => () => void): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]() {
      const iterator = items[Symbol.asyncIterator]();
      const letGo = hold();
      return {
        async next() {
          try {
            const item = await iterator.next();
            if (item.done) letGo();
            return item;
          } catch (thrown) {
            letGo();
            throw thrown;
          }
        },
        async return() {
          letGo();
          await iterator.return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}
