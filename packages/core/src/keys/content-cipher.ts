/**
 * The tenant's content in the database, as ciphertext under the content key of its vault. A sealed value is bound to its place: whose
 * it is, its vault, table, column and row; it opens nowhere else, so none can be put in the place of another.
 *
 * ```
 * version 1 │ nonce, 12 │ AES-256-GCM of the value │ tag, 16
 * ```
 *
 * Each row and column has a key of its own, an HMAC of the place under the content key. So the number of values that may be sealed
 * with random nonces (2^32 under one key) is no limit of a vault, but of one place.
 *
 * A value that was stored plain, before there was a key, is no sealed one and is not taken for one here: who reads an older row says so.
 */
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto';
import { AppError } from '../errors.ts';
import type { Chance, OrganisationId, VaultName } from '../ids.ts';
import { boundBytes } from './bound-bytes.ts';
import type { KeyBytes } from './key-bytes.ts';

export interface ContentPlace {
  readonly organisationId: OrganisationId;
  readonly vault: VaultName;
  readonly table: string;
  readonly column: string;
  /** The id of the row. */
  readonly row: string;
}

const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const OVERHEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES;

export function sealContent(key: KeyBytes, place: ContentPlace, text: string, chance: Chance): Uint8Array {
  const bound = placeBytes(place);
  const nonce = chance.bytes(NONCE_BYTES);
  const placeKey = keyOf(key, bound);
  const cipher = createCipheriv('aes-256-gcm', placeKey, nonce, { authTagLength: TAG_BYTES });
  placeKey.fill(0);
  cipher.setAAD(bound);
  const body = cipher.update(text, 'utf8');
  return Buffer.concat([Uint8Array.of(VERSION), nonce, body, cipher.final(), cipher.getAuthTag()]);
}

/** Throws `vault_key_wrong` for what was sealed for another place, under another key, or is damaged. */
export function openContent(key: KeyBytes, place: ContentPlace, sealed: Uint8Array): string {
  if (sealed.length < OVERHEAD_BYTES || sealed[0] !== VERSION) {
    throw wrong(place, 'has no format that this version knows');
  }
  const bound = placeBytes(place);
  const nonce = sealed.subarray(1, 1 + NONCE_BYTES);
  const placeKey = keyOf(key, bound);
  const cipher = createDecipheriv('aes-256-gcm', placeKey, nonce, { authTagLength: TAG_BYTES });
  placeKey.fill(0);
  cipher.setAAD(bound);
  cipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES));
  try {
    const body = cipher.update(sealed.subarray(1 + NONCE_BYTES, sealed.length - TAG_BYTES));
    return Buffer.concat([body, cipher.final()]).toString('utf8');
  } catch {
    throw wrong(place, 'is damaged, or not of this place');
  }
}

/** For finding equal values in a column, without reading them: the same for the same text in the same column of one vault. */
export function contentDigest(key: KeyBytes, place: Omit<ContentPlace, 'row'>, text: string): string {
  const { organisationId, vault, table, column } = place;
  const bound = boundBytes('space digest', organisationId, vault, table, column, text);
  return createHmac('sha256', key.reveal()).update(bound).digest('hex');
}

function placeBytes({ organisationId, vault, table, column, row }: ContentPlace): Buffer {
  return boundBytes('space content', organisationId, vault, table, column, row);
}

function keyOf(key: KeyBytes, bound: Uint8Array): Buffer {
  return createHmac('sha256', key.reveal()).update(bound).digest();
}

function wrong({ table, column, row }: ContentPlace, why: string): AppError {
  return new AppError('vault_key_wrong', `What is kept as ${table}.${column} of ${row} ${why}.`);
}
