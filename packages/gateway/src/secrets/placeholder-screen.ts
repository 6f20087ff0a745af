/**
 * The body of a request on its way out: passed on as it comes, and stopped before a placeholder in it is whole. What was sent
 * before that is not a placeholder.
 */
import { Transform, type TransformCallback } from 'node:stream';
import { hasPlaceholder, PLACEHOLDER_OVERLAP } from '@space/core';
import { refusedSecret } from '../refusal.ts';

export class PlaceholderScreen extends Transform {
  #tail = '';

  override _transform(bytes: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const text = this.#tail + bytes.toString('latin1');
    if (hasPlaceholder(text)) {
      done(
        refusedSecret(
          'The body of the request holds the placeholder of a secret, and secrets are not placed in bodies.',
        ),
      );
      return;
    }
    this.#tail = text.slice(-PLACEHOLDER_OVERLAP);
    done(null, bytes);
  }
}
