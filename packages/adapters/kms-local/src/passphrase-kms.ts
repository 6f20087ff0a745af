/**
 * A key that is made of a passphrase, which lies in a file that only the platform may read, for as long as it lies there. What
 * is wrapped says with which salt and at which cost, so that the cost can be raised later.
 *
 * ```
 * version 1 │ log2 of the cost, 1 │ salt, 16 │ nonce, 12 │ AES-256-GCM │ tag, 16
 * ```
 */
import { createHash, randomBytes, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import { AppError, KeyBytes, type KeyContext, type Kms } from '@space/core';
import { LOCAL_KEY_BYTES, notOurs, unwrapWith, wrapWith } from './envelope.ts';
import { readPrivateFile } from './read-private-file.ts';

const VERSION = 1;
const SALT_BYTES = 16;
const HEAD_BYTES = 2 + SALT_BYTES;
/** 128 MiB and about half a second: each guess costs as much. */
const COST_LOG2 = 17;
const MIN_COST_LOG2 = 15;
const MAX_COST_LOG2 = 18;
const BLOCK = 8;
const MIN_PASSPHRASE_BYTES = 12;
/** Made keys that are kept, so that looking whether a key is still there costs no more than reading its file. */
const KEPT_KEYS = 64;

const derive = promisify<Uint8Array, Uint8Array, number, object, Buffer>(scrypt);

export function passphraseKms(path: string, { costLog2 = COST_LOG2 }: { readonly costLog2?: number } = {}): Kms {
  const made = new Map<string, KeyBytes>();

  /** Of the passphrase as it is now; one that was made of another is not used, and goes when its place is needed. */
  async function keyFor(head: Uint8Array, signal: AbortSignal): Promise<KeyBytes> {
    signal.throwIfAborted();
    const passphrase = await readPassphrase(path);
    try {
      const name = createHash('sha256').update(head).update(passphrase).digest('hex');
      const kept = made.get(name);
      if (kept !== undefined) return kept;
      const key = new KeyBytes(await deriveKey(passphrase, head));
      made.set(name, key);
      dropOldest(made);
      return key;
    } finally {
      passphrase.fill(0);
    }
  }

  const unwrap: Kms['unwrap'] = async (wrapped, context, signal) => {
    const head = headOf(wrapped);
    return unwrapWith((await keyFor(head, signal)).reveal(), wrapped.subarray(HEAD_BYTES), placeIn(context));
  };
  return {
    unwrap,
    check: async (...how) => (await unwrap(...how)).wipe(),
    async wrap(wrapped, context, signal) {
      const head = Buffer.concat([Buffer.of(VERSION, costLog2), randomBytes(SALT_BYTES)]);
      return Buffer.concat([head, wrapWith((await keyFor(head, signal)).reveal(), wrapped, placeIn(context))]);
    },
  };
}

function placeIn(context: KeyContext) {
  return { by: 'passphrase', context };
}

async function readPassphrase(path: string): Promise<Buffer> {
  const bytes = await readPrivateFile(path, 'The passphrase');
  const end = bytes.at(-1) === 0x0a ? bytes.length - 1 : bytes.length;
  if (end < MIN_PASSPHRASE_BYTES) {
    throw new AppError('kms_unavailable', `The passphrase is shorter than ${MIN_PASSPHRASE_BYTES} bytes.`);
  }
  return bytes.subarray(0, end);
}

async function deriveKey(passphrase: Uint8Array, head: Uint8Array): Promise<Buffer> {
  const N = 2 ** (head[1] ?? 0);
  const how = { N, r: BLOCK, p: 1, maxmem: 2 * 128 * N * BLOCK };
  return derive(passphrase, head.subarray(2), LOCAL_KEY_BYTES, how);
}

/** A cost that is out of bounds was never ours: it would be work for nothing, or none against a guess. */
function headOf(wrapped: Uint8Array): Uint8Array {
  const [version, cost = 0] = wrapped;
  if (wrapped.length < HEAD_BYTES || version !== VERSION) throw notOurs();
  if (cost < MIN_COST_LOG2 || cost > MAX_COST_LOG2) throw notOurs();
  return Uint8Array.from(wrapped.subarray(0, HEAD_BYTES));
}

function dropOldest(made: Map<string, KeyBytes>): void {
  if (made.size <= KEPT_KEYS) return;
  const [oldest] = made.keys();
  // Whoever uses it now has it from the map, and an await may lie between: it is let go, and not wiped.
  if (oldest !== undefined) made.delete(oldest);
}
