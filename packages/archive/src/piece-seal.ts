/**
 * What a key of archives does to the bytes of one space: AES-256-GCM, each object under a key of its own.
 *
 * ```
 * a piece, an index:   version 1 │ nonce, 12 │ ciphertext │ tag, 16
 * ```
 *
 * - A piece is named by a keyed digest of what it holds. Who has no key cannot tell whether it is what they think that it is.
 * - Its key follows from space and name, and both are its associated data: it opens as nothing else, nowhere else.
 * - Two exports may pack one piece differently and seal it under one key: so nonces are random, of which one key sees few.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { boundBytes, type Digest, type KeyBytes, type ProjectId, type SandboxId } from '@space/core';

const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const SEAL_BYTES = 1 + NONCE_BYTES + TAG_BYTES;

export class ArchiveSealer {
  readonly #key: KeyBytes;
  readonly #space: ProjectId;

  /** The key is the giver's to wipe. */
  constructor(key: KeyBytes, space: ProjectId) {
    this.#key = key;
    this.#space = space;
  }

  nameOf(bytes: Uint8Array): Digest {
    const nameKey = this.#keyOf(boundBytes('space piece name', this.#space));
    const name = createHmac('sha256', nameKey).update(bytes).digest('hex') as Digest;
    nameKey.fill(0);
    return name;
  }

  sealPiece(name: Digest, packed: Uint8Array): Uint8Array {
    return this.#seal(boundBytes('space piece', this.#space, name), packed);
  }

  /** Null: it is damaged, or was sealed as another or under another key. */
  openPiece(name: Digest, sealed: Uint8Array): Uint8Array | null {
    return this.#open(boundBytes('space piece', this.#space, name), sealed);
  }

  /** `header` is what is in clear beside it. */
  sealIndex(sandboxId: SandboxId, header: string, body: Uint8Array): Uint8Array {
    return this.#seal(boundBytes('space index', this.#space, sandboxId, header), body);
  }

  /** Null: as of a piece, or its header was changed. */
  openIndex(sandboxId: SandboxId, header: string, sealed: Uint8Array): Uint8Array | null {
    return this.#open(boundBytes('space index', this.#space, sandboxId, header), sealed);
  }

  #seal(bound: Buffer, bytes: Uint8Array): Uint8Array {
    const nonce = randomBytes(NONCE_BYTES);
    const key = this.#keyOf(bound);
    const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
    key.fill(0);
    cipher.setAAD(bound);
    const body = cipher.update(bytes);
    return Buffer.concat([Uint8Array.of(VERSION), nonce, body, cipher.final(), cipher.getAuthTag()]);
  }

  #open(bound: Buffer, sealed: Uint8Array): Uint8Array | null {
    if (sealed.length < SEAL_BYTES || sealed[0] !== VERSION) return null;
    const key = this.#keyOf(bound);
    const nonce = sealed.subarray(1, 1 + NONCE_BYTES);
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
    key.fill(0);
    decipher.setAAD(bound);
    decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES));
    try {
      const body = decipher.update(sealed.subarray(1 + NONCE_BYTES, sealed.length - TAG_BYTES));
      return Buffer.concat([body, decipher.final()]);
    } catch {
      return null;
    }
  }

  #keyOf(bound: Uint8Array): Buffer {
    return createHmac('sha256', this.#key.reveal()).update(bound).digest();
  }
}
