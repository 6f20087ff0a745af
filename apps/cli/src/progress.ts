/** One line about a copy on the way, for a person on a terminal. */
import type { TerminalOut } from './context.ts';
import { inert } from './inert.ts';
import { bytesText } from './output.ts';

const EVERY_MS = 100;

export class Progress {
  readonly #stream: TerminalOut | null;
  #name = '';
  #total = 0;
  #done = 0;
  #shownAt = 0;
  #files = 0;
  #bytes = 0;

  /** Null: nobody looks. */
  constructor(stream: TerminalOut | null) {
    this.#stream = stream;
  }

  get counts(): { readonly files: number; readonly bytes: number } {
    return { files: this.#files, bytes: this.#bytes };
  }

  begin(name: string, totalBytes: number): void {
    this.#name = name;
    this.#total = totalBytes;
    this.#done = 0;
    this.#show();
  }

  /** Passes the pieces on and counts them. */
  async *count(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      yield chunk;
      this.#done += chunk.length;
      this.#bytes += chunk.length;
      if (Date.now() - this.#shownAt >= EVERY_MS) this.#show();
    }
    this.#files += 1;
  }

  /** In place of what stood there. */
  tell(text: string): void {
    this.#stream?.write(`\r\x1b[K${text.slice(0, Math.max(20, (this.#stream.columns ?? 80) - 1))}`);
  }

  clear(): void {
    this.tell('');
  }

  #show(): void {
    if (this.#stream === null) return;
    this.#shownAt = Date.now();
    const share =
      this.#total > 0 ? ` of ${bytesText(this.#total)}, ${Math.floor((100 * this.#done) / this.#total)} %` : '';
    this.tell(`${inert(this.#name)}  ${bytesText(this.#done)}${share}`);
  }
}
