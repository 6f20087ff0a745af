/**
 * Takes a secret out of what comes back, in the forms in which a host may echo it: as it is, in base64 at any offset, in hex, in UTF-16,
 * as a part of a URL, of JSON or of HTML. Best effort: a host that wants to give it away knows more forms than these. Each letter of it becomes
 * `*`, so that nothing changes its length.
 *
 * A stream is passed on as it comes. Bytes that may be the begin of a secret wait for what follows, and for a short time only
 * while they are few: who speaks letter by letter is not held up.
 *
 * A long form is looked for by its begin, and masked for as long as it goes on, over any number of parts: so what waits, and what a byte
 * costs, does not grow with the secret, whatever a host makes of it. Of a secret that repeats itself a rest may stay.
 */
import { Transform, type TransformCallback } from 'node:stream';
import type { SecretValue } from '@space/core';

/** Of what is shorter, too much that is none would be taken for it. */
const MIN_BYTES = 6;
/** A part of a secret that is as short as that could be anything. */
const MIN_PART_BYTES = 8;
const HELD_MS = 50;
/** By so much of it a form is looked for; nothing that long is there by chance. */
const NEEDLE_BYTES = 64;
const MASK = '*'.charCodeAt(0);

export interface Form {
  readonly bytes: Buffer;
  /** Its begin, or all of it. */
  readonly needle: Buffer;
}

/** A form that the bytes so far end within. */
interface Going {
  readonly form: Form;
  /** How much of it has been there. */
  readonly at: number;
}

/** Made once for a value, which many requests may have: those of a long one take tens of milliseconds. */
const KEPT_FORMS = new WeakMap<SecretValue, Map<string, readonly Form[]>>();

/** `also`: how else it is sent. */
export function formsOf(value: SecretValue, also: readonly string[] = []): readonly Form[] {
  const kept = KEPT_FORMS.get(value) ?? new Map<string, readonly Form[]>();
  KEPT_FORMS.set(value, kept);
  const key = JSON.stringify(also);
  const forms =
    kept.get(key) ?? bytesOf(value, also).map((bytes) => ({ bytes, needle: bytes.subarray(0, NEEDLE_BYTES) }));
  kept.set(key, forms);
  return forms;
}

function bytesOf(value: SecretValue, also: readonly string[]): readonly Buffer[] {
  const text = value.reveal();
  const wide = Buffer.from(text, 'utf16le');
  const forms = [
    // What a host has made of it is written down like any other text.
    ...[text, ...inBase64(text), ...also].flatMap(writtenAs).map((form) => Buffer.from(form)),
    Buffer.from(Buffer.from(text).toString('hex')),
    Buffer.from(Buffer.from(text).toString('hex').toUpperCase()),
    wide,
    Buffer.from(wide).swap16(),
  ];
  const unique = new Map(forms.map((form) => [form.toString('latin1'), form]));
  return [...unique.values()].filter(({ length }) => length >= MIN_BYTES);
}

/** As a part of JSON, of a URL, of a form and of HTML, by the libraries that are common. */
function writtenAs(text: string): string[] {
  const json = JSON.stringify(text).slice(1, -1);
  const slashed = json.replaceAll('/', '\\/');
  const percent = encodeURIComponent(text);
  const encoded = [
    percent,
    percent.replace(/[!'()*]/g, (letter) => `%${codeOf(letter, 2).toUpperCase()}`),
    percent.replaceAll('%2F', '/'),
    percent.replaceAll('%20', '+'),
    encodeURI(text),
    new URLSearchParams({ '': text }).toString().slice(1),
  ];
  return [
    text,
    json,
    slashed,
    withCodes(json, /[^ -~]/g),
    withCodes(slashed, /[^ -~]/g),
    withCodes(json, /[<>&]/g),
    withCodes(json, /[<>&'=]/g),
    withCodes(json.replaceAll('\\"', '"'), /[<>&'"+`]|[^ -~]/g).replace(
      /\\u..../g,
      (code) => `\\u${code.slice(2).toUpperCase()}`,
    ),
    ...encoded,
    ...encoded.map((one) => one.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())),
    inHtml(text, /[&<>"']/g),
    inHtml(text, /[&<>"'`=/]/g),
  ];
}

function withCodes(text: string, letters: RegExp): string {
  return text.replace(letters, (letter) => `\\u${codeOf(letter, 4)}`);
}

const IN_HTML: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function inHtml(text: string, letters: RegExp): string {
  return text.replace(letters, (letter) => IN_HTML[letter] ?? `&#x${codeOf(letter, 2).toUpperCase()};`);
}

function codeOf(letter: string, digits: number): string {
  return letter.charCodeAt(0).toString(16).padStart(digits, '0');
}

/** At the three offsets, without the letters that depend on what stands around it; in both alphabets. */
function inBase64(text: string): string[] {
  const bytes = Buffer.from(text);
  return [0, 1, 2].flatMap((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    const skipped = Math.ceil((before * 8) / 6);
    const whole = Math.floor(((before + bytes.length) * 8) / 6);
    const stable = encoded.slice(skipped, whole);
    return [stable, stable.replaceAll('+', '-').replaceAll('/', '_')];
  });
}

export function scrubText(text: string, forms: readonly Form[]): string {
  const bytes = Buffer.from(text, 'latin1');
  const shown = Buffer.from(bytes);
  return mask({ bytes, shown, forms, before: [] }).end > 0 ? shown.toString('latin1') : text;
}

interface Masking {
  readonly bytes: Buffer;
  /** The same, in which it is masked. */
  readonly shown: Buffer;
  readonly forms: readonly Form[];
  /** What the bytes before ended within. */
  readonly before: readonly Going[];
}

/** Where the last one ends that was found, 0: there was none; and what the bytes end within. */
function mask({ bytes, shown, forms, before }: Masking): { readonly end: number; readonly going: readonly Going[] } {
  let end = 0;
  const going: Going[] = [];
  const found = (form: Form, from: number, at: number): number => {
    const length = lengthOfSame(form.bytes, from, bytes, at);
    shown.fill(MASK, at, at + length);
    end = Math.max(end, at + length);
    const isAll = from + length === form.bytes.length;
    if (!isAll && at + length === bytes.length) going.push({ form, at: from + length });
    return at + length;
  };
  for (const { form, at } of before) found(form, at, 0);
  for (const form of forms) {
    let at = bytes.indexOf(form.needle);
    while (at >= 0) at = bytes.indexOf(form.needle, found(form, 0, at));
  }
  return { end, going };
}

function lengthOfSame(form: Buffer, from: number, bytes: Buffer, at: number): number {
  const most = Math.min(form.length - from, bytes.length - at);
  let length = 0;
  while (length < most && form[from + length] === bytes[at + length]) length++;
  return length;
}

export class Scrubber extends Transform {
  readonly #forms: readonly Form[];
  /** By the byte that they begin with. */
  readonly #byFirst: ReadonlyMap<number | undefined, readonly Buffer[]>;
  readonly #longest: number;
  #going: readonly Going[] = [];
  /** What may be the begin of a form, as it came. */
  #held: Buffer = Buffer.alloc(0);
  /** How many of the held bytes have been passed on, as they came: too late to mask those. */
  #passed = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(forms: readonly Form[]) {
    super();
    this.#forms = forms;
    const needles = forms.map(({ needle }) => needle);
    this.#byFirst = Map.groupBy(needles, ([first]) => first);
    this.#longest = Math.max(0, ...needles.map(({ length }) => length));
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    clearTimeout(this.#timer);
    const seen = Buffer.concat([this.#held, chunk]);
    const shown = Buffer.from(seen);
    // What lies in a form that was found is no begin of another.
    const { end, going } = mask({ bytes: seen, shown, forms: this.#forms, before: this.#going });
    this.#going = going;
    const from = this.#beginAt(seen, end);
    if (from > this.#passed) this.push(shown.subarray(this.#passed, from));
    this.#held = seen.subarray(from);
    this.#passed = Math.max(0, this.#passed - from);
    if (this.#held.length > this.#passed) this.#passOnSoon();
    done();
  }

  override _flush(done: TransformCallback): void {
    clearTimeout(this.#timer);
    const left = Buffer.from(this.#held.subarray(this.#passed));
    // Who asks for a part of an answer may have it end within the secret.
    if (this.#held.length >= MIN_PART_BYTES && this.#holdsHalf()) left.fill(MASK);
    if (left.length > 0) this.push(left);
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#timer);
    done(error);
  }

  /** Where the longest end of the bytes begins that a form begins with, not before `min`; their length when there is none. */
  #beginAt(bytes: Buffer, min: number): number {
    for (let at = Math.max(min, bytes.length - this.#longest + 1); at < bytes.length; at++) {
      const left = bytes.length - at;
      const likely = this.#byFirst.get(bytes[at]) ?? [];
      if (likely.some((form) => form.length > left && bytes.compare(form, 0, left, at) === 0)) return at;
    }
    return bytes.length;
  }

  /** The half of a secret is nothing that a message ends with by chance. */
  #holdsHalf(): boolean {
    const { length } = this.#held;
    return this.#forms.some(
      ({ needle }) => length * 2 >= needle.length && needle.subarray(0, length).equals(this.#held),
    );
  }

  #passOnSoon(): void {
    if (this.#holdsHalf()) return;
    this.#timer = setTimeout(() => {
      if (this.destroyed || this.writableEnded) return;
      this.push(this.#held.subarray(this.#passed));
      this.#passed = this.#held.length;
    }, HELD_MS);
  }
}
