import { randomBytes } from 'node:crypto';
import {
  AppError,
  DEFAULT_ORGANISATION,
  DEFAULT_VAULT,
  type KmsReference,
  type OrganisationId,
  PLATFORM_KEY,
  parseKeyringToken,
  type VaultName,
} from '@space/core';
import { FakeKms, FakeNode, fakeKmsDirectory, realClock } from '@space/testkit';
import { beforeEach, describe, expect, it } from 'vitest';
import type { ControlPorts, Logger } from '../src/ports.ts';
import { INSTALLATION_KEY, type NewVault, VaultKeys, vaultNameOf } from '../src/vault-keys.ts';
import { Vaults } from '../src/vaults.ts';
import { MemoryRecords } from './memory-records.ts';

const chance = { bytes: (count: number) => randomBytes(count) };
const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const FIRST_KEY = INSTALLATION_KEY;
const SECOND_KEY: KmsReference = { kms: 'local', key: 'second' };
const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1_000);

let node: FakeNode;
let kms: FakeKms;
let records: MemoryRecords;
let ports: ControlPorts;
let keys: VaultKeys;
beforeEach(() => {
  kms = new FakeKms();
  records = new MemoryRecords();
  node = new FakeNode();
  const rest = { node, clock: realClock(), chance, logger: silent };
  ports = { ...rest, records, kms: fakeKmsDirectory(kms) };
  keys = new VaultKeys(ports);
});

const wish = (name: string, changes: Partial<NewVault> = {}): NewVault => ({
  name: name as VaultName,
  organisationId: DEFAULT_ORGANISATION,
  isDefault: false,
  sizeBytes: 1024 ** 3,
  reference: INSTALLATION_KEY,
  onRevoke: 'pause',
  outageMs: null,
  ...changes,
});

async function recorded(name: string) {
  const found = await records.vaults.find(name as VaultName);
  if (found === null) throw new Error(`there is no vault ${name}`);
  return found;
}

/** Made, and open on the node. */
async function opened(name: string): Promise<void> {
  await keys.make(wish(name));
  await new Vaults(ports, keys).ensureOpen(name as VaultName);
}

const headerOf = (name: string) => parseKeyringToken(node.fakeVaults.tokenOf(name as VaultName) ?? '');

async function unwraps() {
  const { items } = await records.audit.list({ organisationId: DEFAULT_ORGANISATION, limit: 100 });
  return items.map(({ apiKeyId, call, target, outcome }) => ({ apiKeyId, call, target, outcome }));
}

const code = (expected: string) => expect.objectContaining({ code: expected });

describe('the vault of an organisation', () => {
  it('is made once, under the key of the installation, whoever asks at the same time', async () => {
    const names = await Promise.all(Array.from({ length: 8 }, () => keys.defaultFor(DEFAULT_ORGANISATION)));
    const other = await new VaultKeys(ports).defaultFor(DEFAULT_ORGANISATION);
    expect(new Set([...names, other])).toEqual(new Set([vaultNameOf(DEFAULT_ORGANISATION)]));
    expect(await records.vaults.all()).toMatchObject([
      {
        isDefault: true,
        state: 'making',
        keyring: { reference: INSTALLATION_KEY },
        organisationId: DEFAULT_ORGANISATION,
      },
    ]);
    expect(kms.asked.wrap).toBe(1);
  });

  it.each(['default', 'org-0123456789abcdef', 'org-'])('has a name that nobody else can take: %s', async (name) => {
    await expect(keys.make(wish(name))).rejects.toEqual(code('bad_request'));
    const other = { organisationId: 'org_evilevilevilevi1' as OrganisationId };
    await expect(keys.make(wish(vaultNameOf(DEFAULT_ORGANISATION), other))).rejects.toEqual(code('bad_request'));
    expect([await records.vaults.all(), kms.asked.wrap]).toEqual([[], 0]);
    expect(await keys.defaultFor(DEFAULT_ORGANISATION)).toBe(vaultNameOf(DEFAULT_ORGANISATION));
  });

  it('is asked for again when its KMS did not answer, and nothing is recorded before it did', async () => {
    kms.mood = 'down';
    await expect(keys.defaultFor(DEFAULT_ORGANISATION)).rejects.toEqual(code('kms_unavailable'));
    expect(await records.vaults.all()).toEqual([]);
    kms.mood = 'up';
    expect(await keys.defaultFor(DEFAULT_ORGANISATION)).toBe(vaultNameOf(DEFAULT_ORGANISATION));
  });

  it('is the plain one where there is no KMS at all', async () => {
    const without = new VaultKeys({ ...ports, kms: undefined } as never);
    expect(await without.defaultFor(DEFAULT_ORGANISATION)).toBe(DEFAULT_VAULT);
    const { recorded: none, key, confirm } = await without.opening(DEFAULT_VAULT, null);
    await confirm();
    expect([none, key]).toEqual([null, null]);
  });
});

describe('opening', () => {
  it('gives the same keys each time, keeps the content key, and is in the audit', async () => {
    await keys.make(wish('a'));
    const first = await keys.opening('a' as VaultName, null);
    await first.confirm();
    const second = await keys.opening('a' as VaultName, null);
    await second.confirm();
    expect(Buffer.from(first.key?.reveal() ?? [])).toEqual(Buffer.from(second.key?.reveal() ?? [1]));
    expect(first.key?.length).toBe(64);
    expect(JSON.parse(first.token ?? '')).toMatchObject({
      organisation: DEFAULT_ORGANISATION,
      vault: 'a',
      key: 'installation',
    });
    expect(keys.content('a' as VaultName)?.key.length).toBe(32);
    expect((await recorded('a')).state).toBe('ready');
    expect(await unwraps()).toEqual([
      { apiKeyId: PLATFORM_KEY, call: 'unwrap/open', target: 'a', outcome: 'ok' },
      { apiKeyId: PLATFORM_KEY, call: 'unwrap/open', target: 'a', outcome: 'ok' },
    ]);
  });

  it('wipes the content key when the vault is closed', async () => {
    await keys.make(wish('a'));
    {
      using opening = await keys.opening('a' as VaultName, null);
      await opening.confirm();
    }
    const held = keys.content('a' as VaultName)?.key;
    expect(held?.wiped).toBe(false);
    keys.closed('a' as VaultName);
    expect(held?.wiped).toBe(true);
    expect(keys.content('a' as VaultName)).toBeNull();
    expect(keys.held()).toEqual([]);
  });

  it('that is not confirmed leaves no key', async () => {
    await keys.make(wish('a'));
    const { key, ...rest } = await keys.opening('a' as VaultName, null);
    rest[Symbol.dispose]();
    expect(key?.wiped).toBe(true);
    expect(keys.held()).toEqual([]);
  });

  it('loses to a revocation that comes while the KMS is asked, or the node opens it', async () => {
    await keys.make(wish('a'));
    const opening = await keys.opening('a' as VaultName, null);
    await records.vaults.change(await recorded('a'), { revocation: revocation() }, at(1));
    await expect(opening.confirm()).rejects.toEqual(code('vault_revoked'));
    await expect(keys.opening('a' as VaultName, null)).rejects.toEqual(code('vault_revoked'));
    expect(() => keys.requireUsable('a' as VaultName)).toThrow(code('vault_revoked'));
    expect((await recorded('a')).state).toBe('making');
    await records.vaults.change(await recorded('a'), { revocation: null }, at(2));
    await (await keys.opening('a' as VaultName, null)).confirm();
    keys.requireUsable('a' as VaultName);
  });

  it('a key that its organisation may not name any more is refused, and can be named for no new vault', async () => {
    await keys.make(wish('a'));
    kms.key = () => {
      throw new AppError('bad_request', 'The organisation may use no such key.');
    };
    await expect(keys.opening('a' as VaultName, null)).rejects.toEqual(code('kms_refused'));
    await expect(keys.look(await recorded('a'))).rejects.toEqual(code('kms_refused'));
    await expect(keys.make(wish('b'))).rejects.toEqual(code('bad_request'));
  });

  it('asks no KMS for the key of what is revoked', async () => {
    await keys.make(wish('a'));
    await records.vaults.change(await recorded('a'), { revocation: revocation() }, at(1));
    await expect(keys.opening('a' as VaultName, null)).rejects.toEqual(code('vault_revoked'));
    expect(kms.asked.unwrap).toBe(0);
  });

  it.each([
    [
      'does not answer',
      () => {
        kms.mood = 'down';
      },
      'kms_unavailable',
    ],
    [
      'is silent',
      () => {
        kms.mood = 'silent';
      },
      'kms_unavailable',
    ],
    ['has the key disabled', () => kms.set('installation', 'disabled'), 'kms_refused'],
  ])('fails, and says so in the audit, when the KMS %s', async (_how, breakIt, expected) => {
    await keys.make(wish('a'));
    breakIt();
    await expect(keys.opening('a' as VaultName, null)).rejects.toEqual(code(expected));
    expect(await unwraps()).toMatchObject([{ outcome: expected }]);
    expect(keys.content('a' as VaultName)).toBeNull();
  });

  it('is not made when it cannot be recorded in the audit', async () => {
    await keys.make(wish('a'));
    records.audit.append = () => Promise.reject(new Error('no audit'));
    await expect(keys.opening('a' as VaultName, null)).rejects.toThrow('no audit');
    expect(kms.asked.unwrap).toBe(0);
  });

  it('does not take the keyring of another vault, nor of another organisation, for its own', async () => {
    await keys.make(wish('a'));
    await keys.make(wish('b'));
    const [a, b] = [await recorded('a'), await recorded('b')];
    await records.vaults.change(a, { keyring: b.keyring }, at(1));
    await expect(keys.opening('a' as VaultName, null)).rejects.toEqual(code('vault_key_wrong'));
  });
});

describe('another key', () => {
  const by = { apiKeyId: PLATFORM_KEY, requestId: 'req_1' } as never;

  it('wraps the same keyring, which is then opened by it alone', async () => {
    await keys.make(wish('a'));
    const before = await keys.opening('a' as VaultName, null);
    const rewrapped = await keys.rewrap(await recorded('a'), SECOND_KEY, by);
    expect(rewrapped.keyring?.reference).toEqual(SECOND_KEY);
    kms.set('installation', 'deleted');
    const after = await keys.opening('a' as VaultName, null);
    expect(Buffer.from(after.key?.reveal() ?? [])).toEqual(Buffer.from(before.key?.reveal() ?? [1]));
    kms.set('second', 'disabled');
    await expect(keys.opening('a' as VaultName, null)).rejects.toEqual(code('kms_refused'));
  });

  it('changes nothing when it cannot be used, nor when the vault was changed meanwhile', async () => {
    await keys.make(wish('a'));
    const seen = await recorded('a');
    kms.set('second', 'denied');
    await expect(keys.rewrap(seen, SECOND_KEY, by)).rejects.toEqual(code('kms_refused'));
    expect(await recorded('a')).toEqual(seen);
    kms.set('second', 'enabled');
    await records.vaults.change(seen, { revocation: revocation() }, at(1));
    await expect(keys.rewrap(seen, SECOND_KEY, by)).rejects.toEqual(code('operation_in_progress'));
    expect((await recorded('a')).keyring).toEqual(seen.keyring);
  });

  it('is told to the header of the container, whose first key opens nothing then', async () => {
    await opened('a');
    const rotated = await keys.rewrap(await recorded('a'), SECOND_KEY, by);
    expect(rotated.headerIsBehind).toBe(false);
    expect(headerOf('a')).toEqual(rotated.keyring);
  });

  it('whose header cannot be told is in force; rounds tell it, and so does the next opening', async () => {
    await opened('a');
    for (const step of ['keepVaultToken', 'keepVaultToken done']) {
      node.faults.failNext(step, new Error('the node is away'));
      const rotated = await keys.rewrap(await recorded('a'), step === 'keepVaultToken' ? SECOND_KEY : FIRST_KEY, by);
      expect(rotated.headerIsBehind).toBe(true);
      node.faults.failNext('vaults', new Error('the node is away'));
      await expect(keys.tellHeaders()).rejects.toThrow('away');
      expect(await recorded('a')).toEqual(rotated);
      await keys.tellHeaders();
      expect(await recorded('a')).toMatchObject({ headerIsBehind: false });
      expect(headerOf('a')).toEqual(rotated.keyring);
    }
    node.faults.failNext('keepVaultToken', new Error('the node is away'));
    await keys.rewrap(await recorded('a'), SECOND_KEY, by);
    await node.closeVault({ vault: 'a' as VaultName, endLives: false });
    await new Vaults(ports, keys).ensureOpen('a' as VaultName);
    expect(headerOf('a')).toEqual((await recorded('a')).keyring);
    expect(await recorded('a')).toMatchObject({ headerIsBehind: false });
  });

  it('that comes while the header is told of the one before leaves it behind, and not with that', async () => {
    await opened('a');
    const held = node.faults.holdNext('keepVaultToken');
    const first = keys.rewrap(await recorded('a'), SECOND_KEY, by);
    await held.reached;
    const second = await keys.rewrap(await recorded('a'), FIRST_KEY, by);
    expect(second.headerIsBehind).toBe(false);
    held.letGo();
    expect((await first).headerIsBehind).toBe(true);
    await keys.tellHeaders();
    expect(headerOf('a')).toEqual(second.keyring);
  });

  it('that is gone from the record opens nothing, and has nothing made in plain', async () => {
    await keys.make(wish('a'));
    await records.vaults.change(await recorded('a'), { keyring: null }, at(1));
    await expect(new Vaults(ports, keys).ensureOpen('a' as VaultName)).rejects.toEqual(code('vault_key_wrong'));
    expect((await node.vaults()).map(({ vault }) => vault)).toEqual([DEFAULT_VAULT]);
  });

  it('does not unwrap an older keyring that somebody has put back', async () => {
    await keys.make(wish('a'));
    const old = (await recorded('a')).keyring;
    const now = await keys.rewrap(await recorded('a'), SECOND_KEY, by);
    if (old === null) throw new Error('it has no keyring');
    // Under the name of the new key it is not the new key's; under that of the old one, the old key must still be usable.
    await records.vaults.change(now, { keyring: { reference: SECOND_KEY, wrapped: old.wrapped } }, at(1));
    await expect(keys.opening('a' as VaultName, null)).rejects.toEqual(code('vault_key_wrong'));
    kms.set('installation', 'disabled');
    await records.vaults.change(await recorded('a'), { keyring: old }, at(2));
    await expect(keys.opening('a' as VaultName, null)).rejects.toEqual(code('kms_refused'));
  });
});

function revocation() {
  return { cause: 'asked', by: PLATFORM_KEY, detail: null, at: at(1) } as const;
}
