/**
 * What a key of archives does to the bytes of one space: AES-256-GCM, each object under a key of its own.
 *
 * - A piece is named by a keyed digest of what it holds. Who has no key cannot tell whether it is what they think that it is.
 * - Its key follows from space and name, and both are its associated data: it opens as nothing else, nowhere else.
 * - Two exports may pack one piece differently and seal it under one key: so nonces are random, of which one key sees few.
 */
import { createHmac, randomBytes } from 'node:crypto';
import {
  boundBytes,
  boundKey,
  type Digest,
  type KeyBytes,
  NONCE_BYTES,
  openBytes,
  type ProjectId,
  type SandboxId,
  sealBytes,
} from '@space/core';

export class ArchiveSealer {
  readonly #key: KeyBytes;
  readonly #space: ProjectId;

  /** The key is the giver's to wipe. */
  constructor(key: KeyBytes, space: ProjectId) {
    this.#key = key;
    this.#space = space;
  }

  nameOf(bytes: Uint8Array): Digest {
    const nameKey = boundKey(this.#key, boundBytes('space piece name', this.#space));
    const name = createHmac('sha256', nameKey).update(bytes).digest('hex') as Digest;
    nameKey.fill(0);
    return name;
  }

  sealPiece(name: Digest, packed: Uint8Array): Uint8Array {
    return this.#seal(boundBytes('space piece', this.#space, name), packed);
  }

  /** Null: as of `openBytes`. */
  openPiece(name: Digest, sealed: Uint8Array): Uint8Array | null {
    return openBytes(this.#key, boundBytes('space piece', this.#space, name), sealed);
  }

  /** `header` is what is in clear beside it. */
  sealIndex(sandboxId: SandboxId, header: string, body: Uint8Array): Uint8Array {
    return this.#seal(boundBytes('space index', this.#space, sandboxId, header), body);
  }

  /** Null: as of a piece, or its header was changed. */
  openIndex(sandboxId: SandboxId, header: string, sealed: Uint8Array): Uint8Array | null {
    return openBytes(this.#key, boundBytes('space index', this.#space, sandboxId, header), sealed);
  }

  #seal(bound: Buffer, bytes: Uint8Array): Uint8Array {
    return sealBytes(this.#key, bound, bytes, randomBytes(NONCE_BYTES));
  }
}
