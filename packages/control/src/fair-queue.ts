/**
 * Who is next among those that wait for the same thing: the groups take turns, and within a group it is first come, first
 * served. Where the next one's wish does not fit, another group's may; but whoever was passed over too often is waited for.
 */

/** So many others may go before the one whose turn it is. */
const MAX_PASSED = 8;

interface Waiting<T> {
  readonly item: T;
  passed: number;
}

export class FairQueue<G, T> {
  /** In the order of their turns; none is empty. */
  readonly #groups = new Map<G, Waiting<T>[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  sizeOf(group: G): number {
    return this.#groups.get(group)?.length ?? 0;
  }

  add(group: G, item: T): void {
    const waiting = this.#groups.get(group) ?? [];
    waiting.push({ item, passed: 0 });
    this.#groups.set(group, waiting);
    this.#size++;
  }

  all(): readonly T[] {
    return [...this.#groups.values()].flatMap((waiting) => waiting.map(({ item }) => item));
  }

  /** Those that may be tried now, one of each group, in turn. */
  candidates(): readonly T[] {
    const heads = [...this.#groups.values()].flatMap(([head]) => (head === undefined ? [] : [head]));
    const due = heads.findIndex(({ passed }) => passed >= MAX_PASSED);
    return (due < 0 ? heads : heads.slice(due, due + 1)).map(({ item }) => item);
  }

  /** It had its turn: those before it in turn were passed over, and its group is the last now. */
  take(item: T): void {
    for (const [group, waiting] of this.#groups) {
      const [head] = waiting;
      if (head?.item === item) {
        this.#drop(group, waiting, 0);
        if (waiting.length > 0) this.#toTheEnd(group, waiting);
        return;
      }
      if (head !== undefined) head.passed++;
    }
  }

  /** It does not wait any more, wherever it stood. */
  remove(item: T): void {
    for (const [group, waiting] of this.#groups) {
      const index = waiting.findIndex((one) => one.item === item);
      if (index >= 0) this.#drop(group, waiting, index);
    }
  }

  #drop(group: G, waiting: Waiting<T>[], index: number): void {
    waiting.splice(index, 1);
    this.#size--;
    if (waiting.length === 0) this.#groups.delete(group);
  }

  #toTheEnd(group: G, waiting: Waiting<T>[]): void {
    this.#groups.delete(group);
    this.#groups.set(group, waiting);
  }
}
