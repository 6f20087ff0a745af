/**
 * The transit engine of HashiCorp Vault and of OpenBao. Organisation and vault are given as `associated_data`, and as the `context`
 * that a key made with `derived=true` derives its key from. A server of before 1.10 knows no associated data and leaves it out without
 * a word; what is wrapped repeats whose it is for that.
 *
 * The token needs `update` on `MOUNT/encrypt/KEY` and `MOUNT/decrypt/KEY`, and should have no `create`: with that, an encryption by the
 * name of a key that is gone would make a new one. It may look itself up too, as the policy `default` allows: else a refusal cannot be told
 * from a token that has expired, and counts as no answer.
 */
import { AppError, boundBytes, checkedUrl, KeyBytes, type KeyContext, type Kms } from '@space/core';
import { type Asking, askTransit } from './ask.ts';

export interface TransitOptions {
  readonly url: string;
  /** Of a file that holds a token; read each time, so that an agent may renew it there. */
  readonly tokenFile: string;
  /** Where the engine is mounted; left out: `transit`. */
  readonly mount?: string;
  readonly namespace?: string;
  readonly answerWithinMs?: number;
}

const ANSWER_WITHIN_MS = 5_000;
const KEY = /^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,126}[A-Za-z0-9_])?$/;
const MOUNT = /^[A-Za-z0-9_-]+(\/[A-Za-z0-9_-]+)*$/;
const CIPHERTEXT = /^[A-Za-z]{1,16}:v\d{1,9}:[A-Za-z0-9+/=]{1,8192}$/;

/** The keys that the token may use. Throws when the server would be asked in clear text over a network. */
export function transitKms(options: TransitOptions): (key: string) => Kms {
  const { mount = 'transit', answerWithinMs = ANSWER_WITHIN_MS } = options;
  if (!MOUNT.test(mount)) throw new Error('the mount of the transit engine is no plain path');
  checkedUrl(options.url);
  const asking: Asking = { ...options, mount, answerWithinMs };
  return (key) => {
    if (!KEY.test(key)) throw new AppError('bad_request', 'A key of the transit engine has a plain name.');
    return keyOf(asking, key);
  };
}

function keyOf(asking: Asking, key: string): Kms {
  const unwrap: Kms['unwrap'] = async (wrapped, context, signal) => {
    const ciphertext = Buffer.from(wrapped).toString('latin1');
    if (!CIPHERTEXT.test(ciphertext))
      throw new AppError('vault_key_wrong', 'That is no ciphertext of a transit engine.');
    const plain = await askTransit(asking, { verb: 'decrypt', key, body: { ciphertext, ...bound(context) }, signal });
    return KeyBytes.movedFrom(Buffer.from(plain, 'base64'));
  };
  return {
    unwrap,
    check: async (...how) => (await unwrap(...how)).wipe(),
    async wrap(wrapped, context, signal) {
      const bytes = wrapped.reveal();
      const plaintext = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');
      const text = await askTransit(asking, { verb: 'encrypt', key, body: { plaintext, ...bound(context) }, signal });
      if (!CIPHERTEXT.test(text)) throw new AppError('kms_unavailable', 'The transit engine gave no ciphertext.');
      return Buffer.from(text, 'latin1');
    },
  };
}

function bound({ organisationId, vault }: KeyContext) {
  const text = boundBytes('space', organisationId, vault).toString('base64');
  return { context: text, associated_data: text };
}
