/** One after the other, in the order in which they came: input for one process must not overtake other input for it. */
import { Code, ConnectError } from '@connectrpc/connect';

/** Of one key. Each holds a message of bounded size. */
const MAX_WAITING = 256;

interface Line {
  waiting: number;
  last: Promise<unknown>;
}

export class Turns {
  readonly #lines = new Map<string, Line>();

  async take<T>(key: string, work: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(key) ?? { waiting: 0, last: Promise.resolve() };
    if (line.waiting >= MAX_WAITING) {
      throw new ConnectError('too much input waits for the process to read', Code.ResourceExhausted);
    }
    this.#lines.set(key, line);
    line.waiting += 1;
    const turn = line.last.then(work);
    line.last = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      line.waiting -= 1;
      if (line.waiting === 0) this.#lines.delete(key);
    }
  }
}
