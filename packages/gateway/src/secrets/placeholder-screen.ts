/**
 * What a program sends on its way out: passed on as it comes, and stopped before a placeholder in it is whole. What was sent before
 * that is not a placeholder.
 */
import { Transform, type TransformCallback } from 'node:stream';
import { hasPlaceholder, PLACEHOLDER_OVERLAP } from '@space/core';
import { refusedSecret } from '../refusal.ts';

export const PLACEHOLDER_IN_BODY =
  'The body of the request holds the placeholder of a secret, and secrets are not placed in bodies.';
const IN_MESSAGES = 'What is sent holds the placeholder of a secret, and secrets are placed in requests only.';

/** Looks at bytes that come in parts. */
class Watch {
  #tail = '';

  /** Whether there is one, with what came before. */
  sees(bytes: Buffer): boolean {
    const text = this.#tail + bytes.toString('latin1');
    this.#tail = text.slice(-PLACEHOLDER_OVERLAP);
    return hasPlaceholder(text);
  }
}

export class PlaceholderScreen extends Transform {
  readonly #watch = new Watch();
  readonly #why: string;

  constructor(why = PLACEHOLDER_IN_BODY) {
    super();
    this.#why = why;
  }

  override _transform(bytes: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#watch.sees(bytes)) done(refusedSecret(this.#why));
    else done(null, bytes);
  }
}

/** Of bytes that are no requests. */
export function screenOfBytes(): Transform {
  return new PlaceholderScreen(IN_MESSAGES);
}

/** Of what a program sends by a WebSocket, in which each frame hides its bytes with a key that stands before them. */
export class WebSocketScreen extends Transform {
  /** Of the bytes as they are: not all that follows a handshake is frames. */
  readonly #raw = new Watch();
  /** Of messages, whose parts may have frames of control between them. */
  readonly #messages = new Watch();
  readonly #control = new Watch();
  #head = Buffer.alloc(0);
  #left = 0;
  #at = 0;
  #key = Buffer.alloc(4);
  #watch = this.#messages;

  override _transform(bytes: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#raw.sees(bytes) || this.#sees(bytes)) done(refusedSecret(IN_MESSAGES));
    else done(null, bytes);
  }

  #sees(bytes: Buffer): boolean {
    for (let rest = bytes; rest.length > 0; ) {
      if (this.#left === 0) {
        const missing = headLength(this.#head) - this.#head.length;
        this.#head = Buffer.concat([this.#head, rest.subarray(0, missing)]);
        rest = rest.subarray(missing);
        if (this.#head.length === headLength(this.#head)) this.#begin();
        continue;
      }
      const part = this.#shown(rest.subarray(0, this.#left));
      rest = rest.subarray(part.length);
      if (this.#watch.sees(part)) return true;
    }
    return false;
  }

  #shown(hidden: Buffer): Buffer {
    const part = Buffer.from(hidden);
    for (let index = 0; index < part.length; index++) {
      part[index] = (part[index] ?? 0) ^ (this.#key[(this.#at + index) & 3] ?? 0);
    }
    this.#at += part.length;
    this.#left -= part.length;
    return part;
  }

  #begin(): void {
    const head = this.#head;
    const short = (head[1] ?? 0) & 0x7f;
    this.#left = short === 127 ? Number(head.readBigUInt64BE(2)) : short === 126 ? head.readUInt16BE(2) : short;
    this.#watch = ((head[0] ?? 0) & 0x08) === 0 ? this.#messages : this.#control;
    this.#key = isHidden(head) ? head.subarray(-4) : Buffer.alloc(4);
    this.#at = 0;
    this.#head = Buffer.alloc(0);
  }
}

/** As far as it can be told from what is there of it. */
function headLength(head: Buffer): number {
  if (head.length < 2) return 2;
  const short = (head[1] ?? 0) & 0x7f;
  return 2 + (short === 127 ? 8 : short === 126 ? 2 : 0) + (isHidden(head) ? 4 : 0);
}

function isHidden(head: Buffer): boolean {
  return ((head[1] ?? 0) & 0x80) !== 0;
}
