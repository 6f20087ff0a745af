/** Collects the output of a command up to a limit. What passes it is counted and dropped, and the result says so. */

export class Capture {
  readonly #maxBytes: number;
  readonly #chunks: Uint8Array[] = [];
  #keptBytes = 0;
  #totalBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  add(bytes: Uint8Array): void {
    this.#totalBytes += bytes.length;
    const kept = bytes.subarray(0, this.#maxBytes - this.#keptBytes);
    if (kept.length === 0) return;
    this.#chunks.push(kept);
    this.#keptBytes += kept.length;
  }

  get truncated(): boolean {
    return this.#totalBytes > this.#keptBytes;
  }

  get bytes(): Uint8Array {
    return concat(this.#chunks, this.#keptBytes);
  }
}

export function concat(chunks: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(length);
  let offset = 0;
  for (const chunk of chunks) {
    whole.set(chunk, offset);
    offset += chunk.length;
  }
  return whole;
}
