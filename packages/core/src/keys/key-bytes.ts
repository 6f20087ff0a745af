/**
 * The bytes of a key, in a process that may hold them for a while. They show themselves to nobody who does not ask for them by
 * name: not in text, JSON, a log, an error, a clone or an inspection. Whoever is done with them overwrites them.
 *
 * What this cannot promise: a runtime with a garbage collector may have moved a copy of what others handed in. So keys come
 * in buffers of their own, which do not move, and are never made into text.
 */
const SHOWN = '[key]';

export class KeyBytes {
  readonly #bytes: Uint8Array;
  #wiped = false;

  /** Takes the bytes over: they are this key's alone, and `wipe` overwrites them where they are. */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** In memory of its own, and not in a pool that others have parts of; where the bytes were is overwritten. */
  static movedFrom(bytes: Uint8Array): KeyBytes {
    const own = outsideTheHeap(bytes);
    bytes.fill(0);
    return new KeyBytes(own);
  }

  /** A key of its own with the same bytes, so that each holder can wipe what it holds. */
  copy(): KeyBytes {
    return new KeyBytes(outsideTheHeap(this.reveal()));
  }

  get length(): number {
    return this.#bytes.length;
  }

  get wiped(): boolean {
    return this.#wiped;
  }

  /** The bytes themselves and no copy: for the one call that needs them. Throws once they are wiped, rather than give zeros. */
  reveal(): Uint8Array {
    if (this.#wiped) throw new Error('a key was used after it was wiped');
    return this.#bytes;
  }

  /** Idempotent. */
  wipe(): void {
    this.#bytes.fill(0);
    this.#wiped = true;
  }

  [Symbol.dispose](): void {
    this.wipe();
  }

  toString(): string {
    return SHOWN;
  }

  toJSON(): string {
    return SHOWN;
  }

  valueOf(): string {
    return SHOWN;
  }

  [Symbol.toPrimitive](): string {
    return SHOWN;
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return SHOWN;
  }
}

/**
 * An array of 64 bytes or fewer that is made by its length, or from others, lies in V8's heap: a collection moves it, and who asks for its
 * `buffer` (as a write to a socket does) has it copied out of there. The bytes where it was are overwritten by nobody.
 */
export function outsideTheHeap(bytes: Uint8Array): Uint8Array {
  const own = new Uint8Array(new ArrayBuffer(bytes.length));
  own.set(bytes);
  return own;
}
