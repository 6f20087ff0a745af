/**
 * The tenant's content in the database, as ciphertext under the content key of its vault. A sealed value is bound to its place: whose
 * it is, its vault, table, column and row; it opens nowhere else, so none can be put in the place of another.
 *
 * Each row and column has a key of its own, an HMAC of the place under the content key. So the number of values that may be sealed
 * with random nonces (2^32 under one key) is no limit of a vault, but of one place.
 *
 * A value that was stored plain, before there was a key, is no sealed one and is not taken for one here: who reads an older row says so.
 */
import { createHmac } from 'node:crypto';
import { AppError } from '../errors.ts';
import type { Chance, OrganisationId, VaultName } from '../ids.ts';
import { boundBytes } from './bound-bytes.ts';
import type { KeyBytes } from './key-bytes.ts';
import { hasSealedForm, NONCE_BYTES, openBytes, sealBytes } from './sealed-bytes.ts';

export interface ContentPlace {
  readonly organisationId: OrganisationId;
  readonly vault: VaultName;
  readonly table: string;
  readonly column: string;
  /** The id of the row. */
  readonly row: string;
}

export function sealContent(key: KeyBytes, place: ContentPlace, text: string, chance: Chance): Uint8Array {
  return sealBytes(key, placeBytes(place), Buffer.from(text), chance.bytes(NONCE_BYTES));
}

/** Throws `vault_key_wrong` for what was sealed for another place, under another key, or is damaged. */
export function openContent(key: KeyBytes, place: ContentPlace, sealed: Uint8Array): string {
  if (!hasSealedForm(sealed)) throw wrong(place, 'has no format that this version knows');
  const text = openBytes(key, placeBytes(place), sealed)?.toString('utf8');
  if (text === undefined) throw wrong(place, 'is damaged, or not of this place');
  return text;
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

function wrong({ table, column, row }: ContentPlace, why: string): AppError {
  return new AppError('vault_key_wrong', `What is kept as ${table}.${column} of ${row} ${why}.`);
}
