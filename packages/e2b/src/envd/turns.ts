/** One after the other, in the order in which they came: input for one process must not overtake other input for it. */
import { Code, ConnectError } from '@connectrpc/connect';

/** Of one key. */
const MAX_WAITING = 256;
const MAX_BYTES = 16 * 1024 * 1024;
/** Of all keys. */
const MAX_BYTES_OF_ALL = 128 * 1024 * 1024;

interface Line {
  waiting: number;
  bytes: number;
  last: Promise<unknown>;
}

export class Turns {
  readonly #lines = new Map<string, Line>();
  #bytes = 0;

  /** `bytes`: what is held in memory until the work is done. */
  async take<T>(key: string, bytes: number, work: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(key) ?? { waiting: 0, bytes: 0, last: Promise.resolve() };
    const isTooMuch = line.bytes + bytes > MAX_BYTES || this.#bytes + bytes > MAX_BYTES_OF_ALL;
    if (line.waiting >= MAX_WAITING || (bytes > 0 && isTooMuch)) {
      throw new ConnectError('too much input waits for the process to read', Code.ResourceExhausted);
    }
    this.#lines.set(key, line);
    line.waiting += 1;
    line.bytes += bytes;
    this.#bytes += bytes;
    const turn = line.last.then(work);
    line.last = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      line.waiting -= 1;
      line.bytes -= bytes;
      this.#bytes -= bytes;
      if (line.waiting === 0) this.#lines.delete(key);
    }
  }
}
