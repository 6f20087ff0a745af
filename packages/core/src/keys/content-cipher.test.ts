import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { newId, type VaultName } from '../ids.ts';
import { type ContentPlace, contentDigest, openContent, sealContent } from './content-cipher.ts';
import { KeyBytes } from './key-bytes.ts';

const chance = { bytes: (count: number) => randomBytes(count) };
const key = new KeyBytes(randomBytes(32));
const place: ContentPlace = {
  organisationId: newId('organisation', chance),
  vault: 'v1' as VaultName,
  table: 'sandboxes',
  column: 'env',
  row: newId('sandbox', chance),
};
const wrong = expect.objectContaining({ code: 'vault_key_wrong' });

it('gives back any text, and shows nothing of it', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const sealed = sealContent(key, place, text, chance);
      expect(openContent(key, place, sealed)).toBe(Buffer.from(text).toString());
      expect(sealed.length).toBe(Buffer.byteLength(text) + 29);
    }),
  );
  const sealed = Buffer.from(sealContent(key, place, 'MARKER-of-a-tenant', chance));
  expect(sealed.includes('MARKER')).toBe(false);
});

it('never gives the same ciphertext twice', () => {
  const seen = new Set(
    Array.from({ length: 100 }, () => Buffer.from(sealContent(key, place, 'a', chance)).toString('hex')),
  );
  expect(seen.size).toBe(100);
});

it.each([
  ['of another organisation', { organisationId: newId('organisation', chance) }],
  ['of another vault', { vault: 'v2' as VaultName }],
  ['of another table', { table: 'snapshots' }],
  ['of another column', { column: 'metadata' }],
  ['of another row', { row: newId('sandbox', chance) }],
  ['whose parts are divided otherwise', { table: 'sandboxesenv', column: '' }],
])('does not open in a place %s', (_where, other) => {
  const sealed = sealContent(key, place, 'a value', chance);
  expect(() => openContent(key, { ...place, ...other }, sealed)).toThrow(wrong);
});

it('does not open under another key, nor with any bit changed, nor cut', () => {
  const sealed = sealContent(key, place, 'a value', chance);
  expect(() => openContent(new KeyBytes(randomBytes(32)), place, sealed)).toThrow(wrong);
  for (let at = 0; at < sealed.length; at++) {
    const changed = Uint8Array.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    expect(() => openContent(key, place, changed)).toThrow(wrong);
    expect(() => openContent(key, place, sealed.subarray(0, at))).toThrow(wrong);
  }
  // A value that was stored before there was a key is not taken for a sealed one.
  expect(() => openContent(key, place, Buffer.from('{"TOKEN":"a plain value of long ago"}'))).toThrow(wrong);
});

it('cannot be sealed or opened once the key is wiped', () => {
  const gone = new KeyBytes(randomBytes(32));
  const sealed = sealContent(gone, place, 'a value', chance);
  gone.wipe();
  expect(() => openContent(gone, place, sealed)).toThrow('after it was wiped');
  expect(() => sealContent(gone, place, 'a value', chance)).toThrow('after it was wiped');
});

it('is found by equality only in its own column of its own vault', () => {
  const digest = contentDigest(key, place, 'blue');
  expect(contentDigest(key, { ...place, row: 'other' } as never, 'blue')).toBe(digest);
  const others = [
    contentDigest(key, place, 'red'),
    contentDigest(key, { ...place, column: 'metadata' }, 'blue'),
    contentDigest(key, { ...place, vault: 'v2' as VaultName }, 'blue'),
    contentDigest(key, { ...place, organisationId: newId('organisation', chance) }, 'blue'),
    contentDigest(new KeyBytes(randomBytes(32)), place, 'blue'),
  ];
  expect(new Set([digest, ...others]).size).toBe(6);
});
