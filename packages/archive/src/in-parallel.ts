/**
 * Does the work for each item, in order of their begin, so many at a time. When one fails, no other is begun, and the failure is
 * thrown once none is under way any more: what they work on can be closed.
 */
export async function inParallel<T>(
  width: number,
  items: Iterable<T>,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = Iterator.from(items);
  let failed = false;
  const worker = async () => {
    for (let next = left.next(); !failed && next.done !== true; next = left.next()) {
      try {
        await work(next.value);
      } catch (thrown) {
        failed = true;
        throw thrown;
      }
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: width }, worker));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}
