/**
 * Takes a secret out of what comes back, in the forms in which a host may echo it: as it is, in base64 at any offset, in hex, as a
 * part of a URL, in JSON. Best effort: a host that wants to give it away knows more forms than these. Each letter of it becomes
 * `*`, so that nothing changes its length.
 *
 * A stream is passed on as it comes. Bytes that may be the begin of a secret wait for what follows, and for a short time only
 * while they are few: who speaks letter by letter is not held up.
 */
import { Transform, type TransformCallback } from 'node:stream';
import type { SecretValue } from '@space/core';

/** Of what is shorter, too much that is none would be taken for it. */
const MIN_BYTES = 6;
const HELD_MS = 50;
const MASK = '*'.charCodeAt(0);

/** Longest first, so that a form that holds another is found whole. */
export function formsOf(value: SecretValue, also: readonly string[] = []): readonly Buffer[] {
  const text = value.reveal();
  const json = JSON.stringify(text).slice(1, -1);
  const percent = encodeURIComponent(text);
  const forms = [
    text,
    json,
    json.replaceAll('/', '\\/'),
    json.replace(/[<>&'"+=]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`),
    percent,
    percent.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    percent.replaceAll('%20', '+'),
    Buffer.from(text).toString('hex'),
    Buffer.from(text).toString('hex').toUpperCase(),
    ...inBase64(text),
    ...also,
  ].map((form) => Buffer.from(form));
  const unique = new Map(forms.map((form) => [form.toString('latin1'), form]));
  return [...unique.values()].filter(({ length }) => length >= MIN_BYTES).sort((a, b) => b.length - a.length);
}

/** At the three offsets, without the letters that depend on what stands around it; in both alphabets. */
function inBase64(text: string): string[] {
  const bytes = Buffer.from(text);
  return [0, 1, 2].flatMap((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    const skipped = Math.ceil((before * 8) / 6);
    const whole = Math.floor(((before + bytes.length) * 8) / 6);
    const stable = encoded.slice(skipped, whole);
    return [
      stable,
      stable.replaceAll('+', '-').replaceAll('/', '_'),
      stable.replaceAll('+', '%2B').replaceAll('/', '%2F'),
    ];
  });
}

export function scrubText(text: string, forms: readonly Buffer[]): string {
  const bytes = Buffer.from(text, 'latin1');
  return mask(bytes, forms) ? bytes.toString('latin1') : text;
}

/** In place. Whether there was any. */
function mask(bytes: Buffer, forms: readonly Buffer[]): boolean {
  let found = false;
  for (const form of forms) {
    for (let at = bytes.indexOf(form); at >= 0; at = bytes.indexOf(form, at + form.length)) {
      bytes.fill(MASK, at, at + form.length);
      found = true;
    }
  }
  return found;
}

export class Scrubber extends Transform {
  readonly #forms: readonly Buffer[];
  readonly #longest: number;
  /** What may be the begin of a form, as it came. */
  #held: Buffer = Buffer.alloc(0);
  /** How many of the held bytes have been passed on, as they came: too late to mask those. */
  #passed = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(forms: readonly Buffer[]) {
    super();
    this.#forms = forms;
    this.#longest = Math.max(0, ...forms.map(({ length }) => length));
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    clearTimeout(this.#timer);
    const seen = Buffer.concat([this.#held, chunk]);
    const kept = this.#beginAt(seen);
    const shown = Buffer.from(seen);
    mask(shown, this.#forms);
    // A begin that lies in a form that was found is no begin.
    const from = shown.subarray(kept).equals(seen.subarray(kept)) ? kept : seen.length;
    if (from > this.#passed) this.push(shown.subarray(this.#passed, from));
    this.#held = seen.subarray(from);
    this.#passed = Math.max(0, this.#passed - from);
    if (this.#held.length > this.#passed) this.#passOnSoon();
    done();
  }

  override _flush(done: TransformCallback): void {
    clearTimeout(this.#timer);
    if (this.#held.length > this.#passed) this.push(this.#held.subarray(this.#passed));
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#timer);
    done(error);
  }

  /** Where the longest end of the bytes begins that a form begins with; their length when there is none. */
  #beginAt(bytes: Buffer): number {
    for (let at = Math.max(0, bytes.length - this.#longest + 1); at < bytes.length; at++) {
      const likely = this.#forms.filter((form) => form[0] === bytes[at] && form.length > bytes.length - at);
      if (likely.some((form) => bytes.compare(form, 0, bytes.length - at, at) === 0)) return at;
    }
    return bytes.length;
  }

  #passOnSoon(): void {
    const { length } = this.#held;
    // The half of a secret is nothing that a message ends with by chance.
    if (this.#forms.some((form) => length * 2 >= form.length && form.subarray(0, length).equals(this.#held))) return;
    this.#timer = setTimeout(() => {
      if (this.destroyed || this.writableEnded) return;
      this.push(this.#held.subarray(this.#passed));
      this.#passed = this.#held.length;
    }, HELD_MS);
  }
}
