/**
 * The value of a secret, in the one process that may hold it. It shows itself to nobody who does not ask for it by name: not in
 * text, JSON, a log, an error or an inspection.
 */
const SHOWN = '[secret]';

export class SecretValue {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** The value itself: for the request that it is placed in, and nothing else. */
  reveal(): string {
    return this.#text;
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
