/** Keys of vaults from outside: who may do what with them, and what follows. On a fake node, a fake KMS, and a clock of the test's. */
import type { Caller } from '@space/contract';
import { DEFAULT_ORGANISATION, DEFAULT_PROJECT, newId, type Role, type VaultName } from '@space/core';
import { FakeGateway, FakeKms, FakeNode, fakeKmsDirectory, realClock, seededChance } from '@space/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Control, createControl } from '../src/control.ts';
import type { ControlPorts } from '../src/ports.ts';
import { VaultHalt } from '../src/vault-halt.ts';
import { VaultKeys } from '../src/vault-keys.ts';
import { LEASE_MS, VaultLease } from '../src/vault-lease.ts';
import type { RecordedVault } from '../src/vault-records.ts';
import { MemoryRecords } from './memory-records.ts';
import { eventually } from './test-world.ts';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const code = (expected: string) => expect.objectContaining({ code: expected });
const A = 'a' as VaultName;
const MADE = { name: 'a', kms: 'local', key: 'first', isDefault: false, onRevoke: 'pause', outageMs: null } as const;

let node: FakeNode;
let kms: FakeKms;
let records: MemoryRecords;
let ports: ControlPorts;
let nowMs: number;
const chance = seededChance(1);

beforeEach(() => {
  node = new FakeNode();
  kms = new FakeKms();
  records = new MemoryRecords();
  nowMs = 0;
  const clock = { now: realClock().now, monotonicMs: () => nowMs };
  ports = { node, records, clock, chance, logger: silent, kms: fakeKmsDirectory(kms) };
});

async function recorded(): Promise<RecordedVault> {
  const found = await records.vaults.find(A);
  if (found === null) throw new Error('there is no vault');
  return found;
}

async function openOnNode(): Promise<boolean> {
  return (await node.vaults()).some(({ vault, state }) => vault === A && state === 'open');
}

async function unwraps() {
  const { items } = await records.audit.list({ organisationId: DEFAULT_ORGANISATION, limit: 100 });
  const own = items.filter(({ action }) => action === 'vault.unwrap');
  // They may be of one millisecond.
  return own.map(({ call, outcome }) => `${call} ${outcome}`).toSorted();
}

/** As the vault is opened when something needs it. */
async function open(keys: VaultKeys): Promise<void> {
  using opening = await keys.opening(A, null);
  const key = () => Uint8Array.from(opening.key?.reveal() ?? []);
  const { sizeBytes } = await recorded();
  await node.createVault({ vault: A, sizeBytes, key: key(), token: opening.token });
  await node.openVault({ vault: A, key: key() });
  await opening.confirm();
}

describe('a lease', () => {
  let keys: VaultKeys;
  let lease: VaultLease;
  let newLease: (held: VaultKeys) => VaultLease;
  let halt: VaultHalt;
  beforeEach(async () => {
    keys = new VaultKeys(ports);
    halt = new VaultHalt({
      ports,
      keys,
      pause: async () => undefined,
      close: (vault) => node.closeVault({ vault, endLives: true }),
    });
    const opened = async () => (await node.vaults()).filter(({ state }) => state === 'open').map(({ vault }) => vault);
    newLease = (held) => new VaultLease({ ports, keys: held, halt, opened });
    lease = newLease(keys);
    const wish = { name: A, organisationId: DEFAULT_ORGANISATION, isDefault: false, sizeBytes: 1024 ** 3 };
    await keys.make({ ...wish, reference: { kms: 'local', key: 'first' }, onRevoke: 'pause', outageMs: 10 * LEASE_MS });
    await open(keys);
    await lease.round();
  });

  async function afterAnother(leases = 1): Promise<void> {
    nowMs += leases * LEASE_MS;
    await lease.round();
    await halt.settled();
  }

  it('asks the KMS once per lease, keeps no key of that, and writes no record of what is as it was', async () => {
    const before = kms.asked.unwrap;
    nowMs += LEASE_MS - 1;
    await lease.round();
    expect(kms.asked.unwrap).toBe(before);
    nowMs += 1;
    await lease.round();
    await lease.round();
    expect(kms.asked.unwrap).toBe(before + 1);
    await afterAnother();
    expect(kms.asked.unwrap).toBe(before + 2);
    expect(await unwraps()).toEqual(['unwrap/open ok']);
    expect(await openOnNode()).toBe(true);
  });

  it.each(['disabled', 'denied', 'deleted'] as const)('revokes and closes the vault whose key is %s', async (state) => {
    const held = keys.content(A)?.key;
    kms.set('first', state);
    await afterAnother();
    expect((await recorded()).revocation).toMatchObject({ cause: 'refused', by: null });
    expect(await openOnNode()).toBe(false);
    expect(held?.wiped).toBe(true);
    expect(() => keys.requireUsable(A)).toThrow(code('vault_revoked'));
    await expect(keys.opening(A, null)).rejects.toEqual(code('vault_revoked'));
    expect(await unwraps()).toEqual(['unwrap/lease kms_refused', 'unwrap/open ok']);
  });

  it('gives all back by itself when the KMS allows the key again', async () => {
    kms.set('first', 'disabled');
    await afterAnother();
    await afterAnother();
    kms.set('first', 'enabled');
    await afterAnother();
    expect((await recorded()).revocation).toBeNull();
    await open(keys);
    keys.requireUsable(A);
    expect(await openOnNode()).toBe(true);
    expect(await unwraps()).toEqual([
      'unwrap/lease kms_refused',
      'unwrap/lease ok',
      'unwrap/open ok',
      'unwrap/open ok',
    ]);
  });

  it.each(['down', 'silent'] as const)('takes a KMS that is %s for no refusal', async (mood) => {
    kms.mood = mood;
    for (let count = 0; count < 9; count++) await afterAnother();
    expect((await recorded()).revocation).toBeNull();
    expect(await openOnNode()).toBe(true);
    expect(keys.content(A)?.key.wiped).toBe(false);
    kms.mood = 'up';
    await afterAnother();
    // The time counts from the last answer.
    kms.mood = mood;
    for (let count = 0; count < 9; count++) await afterAnother();
    expect(await openOnNode()).toBe(true);
    await afterAnother();
    expect(await openOnNode()).toBe(false);
    expect((await recorded()).revocation).toBeNull();
    await expect(keys.opening(A, null)).rejects.toEqual(code('kms_unavailable'));
    kms.mood = 'up';
    await open(keys);
    expect(await openOnNode()).toBe(true);
  });

  it('takes a keyring that its key does not unwrap for no refusal, and says so aloud', async () => {
    const loud: unknown[] = [];
    ports = { ...ports, logger: { ...silent, error: (told: object) => void loud.push(told) } };
    lease = newLease(keys);
    await lease.round();
    const { keyring } = await recorded();
    const other = { reference: { kms: 'local', key: 'another' }, wrapped: keyring?.wrapped ?? new Uint8Array() };
    await records.vaults.change(await recorded(), { keyring: other }, new Date());
    await afterAnother();
    expect((await recorded()).revocation).toBeNull();
    expect(await openOnNode()).toBe(true);
    expect(loud).toMatchObject([{ vault: A, err: { code: 'vault_key_wrong' } }]);
  });

  it('goes on through a KMS that comes and goes', async () => {
    for (let count = 0; count < 40; count++) {
      kms.next.push(count % 4 === 3 ? 'up' : 'down');
      await afterAnother();
      expect(await openOnNode()).toBe(true);
    }
    expect((await recorded()).revocation).toBeNull();
  });

  it('looks after what is open since before this process was there', async () => {
    lease = newLease(new VaultKeys(ports));
    await lease.round();
    kms.set('first', 'disabled');
    await afterAnother();
    expect(await openOnNode()).toBe(false);
    expect((await recorded()).revocation?.cause).toBe('refused');
  });

  it('closes what another process revoked, though it holds the keys', async () => {
    const revocation = { cause: 'asked', by: newId('apiKey', chance), detail: null, at: new Date() } as const;
    await records.vaults.change(await recorded(), { revocation }, new Date());
    await lease.round();
    await halt.settled();
    expect(await openOnNode()).toBe(false);
    expect(() => keys.requireUsable(A)).toThrow(code('vault_revoked'));
    // Only who has revoked it, or another key holder, takes that back: the KMS has no say.
    await afterAnother();
    expect((await recorded()).revocation?.cause).toBe('asked');
  });

  it('stops nothing by what it read before the vault was reinstated', async () => {
    const revocation = { cause: 'asked', by: newId('apiKey', chance), detail: null, at: new Date() } as const;
    await records.vaults.change(await recorded(), { revocation }, new Date());
    const read = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    const all = records.vaults.all.bind(records.vaults);
    records.vaults.all = async () => {
      const seen = await all();
      read.resolve();
      await answer.promise;
      return seen;
    };
    const late = lease.round();
    await read.promise;
    keys.note(await recorded());
    const reinstated = await records.vaults.change(await recorded(), { revocation: null }, new Date());
    if (reinstated === null) throw new Error('it was changed meanwhile');
    keys.note(reinstated);
    answer.resolve();
    await late;
    await halt.settled();
    keys.requireUsable(A);
    expect(await openOnNode()).toBe(true);
  });

  it('tries again to close what could not be closed', async () => {
    kms.set('first', 'disabled');
    node.faults.failNext('closeVault');
    await afterAnother();
    expect(await openOnNode()).toBe(true);
    expect(() => keys.requireUsable(A)).toThrow(code('vault_revoked'));
    await lease.round();
    await halt.settled();
    expect(await openOnNode()).toBe(false);
    expect(keys.content(A)).toBeNull();
  });
});

describe('a key holder', () => {
  let control: Control;
  beforeEach(async () => {
    control = createControl(ports, new FakeGateway());
    await control.start();
  });
  afterEach(() => control.close());

  let requests = 0;
  const as = (...roles: Role[]): Caller => ({
    principal: {
      apiKeyId: newId('apiKey', chance),
      organisationId: DEFAULT_ORGANISATION,
      operator: true,
      onlyProject: null,
      roles,
    },
    projectId: DEFAULT_PROJECT,
    requestId: `req_${++requests}`,
    signal: new AbortController().signal,
  });
  const holder = () => as('key_holder');

  it('makes a vault under a key, which is shown by its name and never itself', async () => {
    const made = await control.createVault(holder(), MADE);
    expect(made).toMatchObject({ name: 'a', state: 'ready', encrypted: true, open: false, kms: 'local', key: 'first' });
    const listed = await control.listVaults(as('admin'), {});
    expect(listed.vaults).toContainEqual(made);
    expect(listed.kms).toEqual([{ name: 'local', kind: 'local' }]);
    const { keyring } = await recorded();
    expect(JSON.stringify(listed)).not.toContain(Buffer.from(keyring?.wrapped ?? []).toString('base64'));
    await expect(control.createVault(holder(), MADE)).rejects.toEqual(code('name_taken'));
    await expect(control.createVault(holder(), { ...MADE, name: 'b', kms: 'none' })).rejects.toEqual(
      code('bad_request'),
    );
    kms.set('second', 'denied');
    await expect(control.createVault(holder(), { ...MADE, name: 'b', key: 'second' })).rejects.toEqual(
      code('kms_refused'),
    );
    expect((await control.listVaults(holder(), {})).vaults.map(({ name }) => name)).not.toContain('b');
  });

  it.each([
    ['an admin', ['admin']],
    ['a developer', ['developer']],
    ['an auditor', ['auditor']],
    ['an admin who is a key holder too', ['admin', 'key_holder']],
    ['a developer who is a key holder too', ['developer', 'key_holder']],
  ] as const)('is not %s', async (_who, roles) => {
    await control.createVault(holder(), MADE);
    await control.revokeVault(holder(), { id: 'a' });
    const before = await recorded();
    const id = 'a';
    const attempts = [
      () => control.createVault(as(...roles), { ...MADE, name: 'b' }),
      () => control.rotateVaultKey(as(...roles), { id, kms: 'local', key: 'theirs' }),
      () => control.reinstateVault(as(...roles), { id }),
      () => control.revokeVault(as(...roles), { id }),
      () => control.updateVault(as(...roles), { id, isDefault: true }),
      () => control.deleteVault(as(...roles), { id }),
    ];
    for (const attempt of attempts) await expect(attempt()).rejects.toEqual(code('forbidden'));
    expect(await recorded()).toEqual(before);
  });

  it('runs no sandbox', async () => {
    await expect(control.createSandbox(holder(), {})).rejects.toEqual(code('forbidden'));
    await expect(control.listSandboxes(holder(), { limit: 10 })).rejects.toEqual(code('forbidden'));
  });

  it('has the keys wrapped by another key, and then the old one opens nothing', async () => {
    await control.createVault(holder(), MADE);
    const rotated = await control.rotateVaultKey(holder(), { id: 'a', kms: 'local', key: 'second' });
    expect(rotated).toMatchObject({ kms: 'local', key: 'second', state: 'ready' });
    kms.set('first', 'deleted');
    await open(new VaultKeys(ports));
    expect(await unwraps()).toEqual(['unwrap/open ok', 'unwrap/rotate ok']);
  });

  it('revokes, which holds at once, and reinstates, which the KMS has to allow', async () => {
    await control.createVault(holder(), MADE);
    await open(new VaultKeys(ports));
    const revoked = await control.revokeVault(holder(), { id: 'a', reason: 'the contract ended' });
    expect(revoked).toMatchObject({ state: 'revoked', revocation: { cause: 'asked', reason: 'the contract ended' } });
    await eventually(openOnNode, (isOpen) => !isOpen);
    await expect(new VaultKeys(ports).opening(A, null)).rejects.toThrow('the contract ended');
    await expect(control.rotateVaultKey(holder(), { id: 'a', kms: 'local', key: 'second' })).rejects.toEqual(
      code('vault_revoked'),
    );
    await expect(control.updateVault(holder(), { id: 'a', isDefault: true })).rejects.toEqual(code('vault_revoked'));
    // The same again changes nothing.
    expect(await control.revokeVault(holder(), { id: 'a' })).toEqual({ ...revoked, open: false });
    for (const [state, expected] of [
      ['disabled', 'kms_refused'],
      ['enabled', null],
    ] as const) {
      kms.set('first', state);
      const reinstating = control.reinstateVault(holder(), { id: 'a' });
      if (expected === null) expect(await reinstating).toMatchObject({ state: 'ready', revocation: null });
      else await expect(reinstating).rejects.toEqual(code(expected));
    }
    await open(new VaultKeys(ports));
    expect(await openOnNode()).toBe(true);
  });

  it('destroys the keys of a vault, and with them what lay in it', async () => {
    await control.createVault(holder(), { ...MADE, isDefault: true });
    await open(new VaultKeys(ports));
    await expect(control.deleteVault(holder(), { id: 'a' })).rejects.toEqual(code('vault_in_use'));
    await control.createVault(holder(), { ...MADE, name: 'b', isDefault: true });
    await control.deleteVault(holder(), { id: 'a' });
    expect(await recorded()).toMatchObject({ state: 'removed', keyring: null });
    expect((await node.vaults()).map(({ vault }) => vault)).not.toContain('a');
    await expect(control.getVault(holder(), { id: 'a' })).rejects.toEqual(code('not_found'));
    await expect(new VaultKeys(ports).opening(A, null)).rejects.toEqual(code('not_found'));
    await expect(control.createVault(holder(), MADE)).rejects.toEqual(code('name_taken'));
  });
});
