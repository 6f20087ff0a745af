/** The last bytes of a stream that never ends, e.g. a guest's console; and such hostile bytes as harmless text. */

export class ByteRing {
  readonly #limit: number;
  #chunks: Buffer[] = [];
  #size = 0;

  constructor(limitBytes: number) {
    this.#limit = limitBytes;
  }

  push(chunk: Buffer): void {
    // A copy: a slice would keep the whole buffer that it was cut from.
    this.#chunks.push(Buffer.from(chunk.subarray(-this.#limit)));
    this.#size += Math.min(chunk.length, this.#limit);
    if (this.#size >= 2 * this.#limit || this.#chunks.length > 1000) this.#compact();
  }

  text(): string {
    this.#compact();
    return this.#chunks[0]?.toString('utf8') ?? '';
  }

  #compact(): void {
    const kept = Buffer.from(Buffer.concat(this.#chunks).subarray(-this.#limit));
    this.#chunks = [kept];
    this.#size = kept.length;
  }
}

/** The end of a text on one line, with everything that a terminal could act on taken out. */
export function harmlessTail(text: string, maxLength = 600): string {
  const printable = text.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\u2028\u2029]+/gu, ' ').trim();
  return printable.length > maxLength ? `…${printable.slice(-maxLength)}` : printable;
}
