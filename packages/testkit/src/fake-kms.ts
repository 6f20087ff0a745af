/**
 * A KMS in memory: keys that wrap by the same cipher as real ones, bound to their context, and that can be disabled, denied and
 * deleted; and that can be away, silent, or come and go. It counts what it was asked, and keeps no key that it gave out.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import {
  AppError,
  boundBytes,
  KeyBytes,
  type KeyContext,
  type Kms,
  type KmsDirectory,
  type KmsOffer,
  type KmsReference,
} from '@space/core';

export type FakeKeyState = 'enabled' | 'disabled' | 'denied' | 'deleted';
export type FakeKmsMood = 'up' | 'down' | 'silent';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

interface FakeKey {
  readonly material: Buffer;
  state: FakeKeyState;
}

export class FakeKms {
  mood: FakeKmsMood = 'up';
  /** What becomes of the next questions, before the mood counts. */
  readonly next: FakeKmsMood[] = [];
  /** How often each thing was asked for, also in vain. */
  readonly asked = { wrap: 0, unwrap: 0 };
  readonly #keys = new Map<string, FakeKey>();
  readonly #silentMs: number;

  /** `silentMs`: how long one that is silent is waited for. */
  constructor({ silentMs = 20 }: { readonly silentMs?: number } = {}) {
    this.#silentMs = silentMs;
  }

  set(key: string, state: FakeKeyState): void {
    this.#keyNamed(key).state = state;
  }

  key(name: string): Kms {
    const unwrap = async (wrapped: Uint8Array, context: KeyContext, signal: AbortSignal) => {
      this.asked.unwrap++;
      return open(await this.#usable(name, signal), wrapped, boundTo(name, context));
    };
    return {
      wrap: async (key, context, signal) => {
        this.asked.wrap++;
        return close(await this.#usable(name, signal), key, boundTo(name, context));
      },
      unwrap,
      check: async (...how) => (await unwrap(...how)).wipe(),
    };
  }

  /** Throws as one does that was asked over a network. */
  async #usable(name: string, signal: AbortSignal): Promise<Buffer> {
    signal.throwIfAborted();
    const mood = this.next.shift() ?? this.mood;
    if (mood === 'silent') await silence(AbortSignal.any([signal, AbortSignal.timeout(this.#silentMs)]));
    if (mood === 'down') throw new AppError('kms_unavailable', 'The KMS does not answer.');
    const { material, state } = this.#keyNamed(name);
    if (state !== 'enabled')
      throw new AppError('kms_refused', { detail: `The key is ${state}.`, facts: { why: state } });
    return material;
  }

  #keyNamed(name: string): FakeKey {
    const key = this.#keys.get(name) ?? { material: randomBytes(32), state: 'enabled' };
    this.#keys.set(name, key);
    return key;
  }
}

/** Every organisation may name every key of it. */
export function fakeKmsDirectory(kms: FakeKms, name = 'local'): KmsDirectory {
  return {
    keyOf: (reference: KmsReference) => {
      if (reference.kms !== name) throw new AppError('bad_request', `There is no KMS "${reference.kms}".`);
      return kms.key(reference.key);
    },
    list: (): readonly KmsOffer[] => [{ name, kind: 'local' }],
  };
}

function boundTo(name: string, { organisationId, vault }: KeyContext): Buffer {
  return boundBytes(name, organisationId, vault);
}

function close(material: Buffer, key: KeyBytes, bound: Buffer): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', material, nonce).setAAD(bound);
  return Buffer.concat([nonce, cipher.update(key.reveal()), cipher.final(), cipher.getAuthTag()]);
}

function open(material: Buffer, wrapped: Uint8Array, bound: Buffer): KeyBytes {
  try {
    const tagAt = wrapped.length - TAG_BYTES;
    const cipher = createDecipheriv('aes-256-gcm', material, wrapped.subarray(0, NONCE_BYTES)).setAAD(bound);
    cipher.setAuthTag(wrapped.subarray(tagAt));
    return new KeyBytes(Buffer.concat([cipher.update(wrapped.subarray(NONCE_BYTES, tagAt)), cipher.final()]));
  } catch {
    throw new AppError('vault_key_wrong', 'What was wrapped is damaged, or bound to something else.');
  }
}

async function silence(signal: AbortSignal): Promise<never> {
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  throw new AppError('kms_unavailable', 'The KMS did not answer in time.');
}
