import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { newId, type VaultName } from '../ids.ts';
import type { KeyContext } from '../ports/kms.ts';
import { KeyBytes } from './key-bytes.ts';
import { newKeyring, packKeyring, unpackKeyring, wipeKeyring } from './keyring.ts';
import { keyringToken, parseKeyringToken } from './wrapped-keyring.ts';

const chance = { bytes: (count: number) => randomBytes(count) };
const context = (): KeyContext => ({ organisationId: newId('organisation', chance), vault: 'v1' as VaultName });

it('comes back from what is wrapped, and what was unwrapped is wiped', () => {
  const own = context();
  const keyring = newKeyring(chance);
  const packed = packKeyring(keyring, own);
  const back = unpackKeyring(packed, own);
  expect(Buffer.compare(back.volumeKey.reveal(), keyring.volumeKey.reveal())).toBe(0);
  expect(Buffer.compare(back.contentKey.reveal(), keyring.contentKey.reveal())).toBe(0);
  expect([back.volumeKey.length, back.contentKey.length]).toEqual([64, 32]);
  expect(packed.wiped).toBe(true);
  wipeKeyring(back);
  expect(keyring.volumeKey.wiped).toBe(false);
});

it('is no keyring of another organisation or vault, also where a KMS has bound it to nothing', () => {
  const own = context();
  const others = [context(), { ...own, vault: 'v2' as VaultName }];
  for (const other of others) {
    const packed = packKeyring(newKeyring(chance), own);
    expect(() => unpackKeyring(packed, other)).toThrow(expect.objectContaining({ code: 'vault_key_wrong' }));
    expect(packed.wiped).toBe(true);
  }
});

it.each([
  ['cut', (bytes: Buffer) => bytes.subarray(0, -1)],
  ['longer', (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc(1)])],
  ['empty', () => Buffer.alloc(0)],
  ['of a later format', (bytes: Buffer) => Buffer.concat([Buffer.of(2), bytes.subarray(1)])],
])('that is %s is refused', (_how, change) => {
  const own = context();
  const packed = new KeyBytes(change(Buffer.from(packKeyring(newKeyring(chance), own).reveal())));
  expect(() => unpackKeyring(packed, own)).toThrow(expect.objectContaining({ code: 'vault_key_wrong' }));
});

it('lies wrapped in the header of its container, and is read from there', () => {
  const kept = { reference: { kms: 'aws', key: 'arn:aws:kms:eu-central-1:1:key/a' }, wrapped: randomBytes(200) };
  const token = keyringToken(kept, context());
  expect(JSON.parse(token)).toMatchObject({ type: 'space-keyring', keyslots: [] });
  const back = parseKeyringToken(token);
  expect(back.reference).toEqual(kept.reference);
  expect(Buffer.from(back.wrapped).equals(kept.wrapped)).toBe(true);
  for (const bad of [
    '',
    '{}',
    token.slice(1),
    token.replace('"format":1', '"format":2'),
    token.replace('"wrapped":"', '"wrapped":"*'),
  ]) {
    expect(() => parseKeyringToken(bad)).toThrow(expect.objectContaining({ code: 'vault_damaged' }));
  }
});
