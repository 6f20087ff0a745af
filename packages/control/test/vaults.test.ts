/** Vaults that open when something needs them and close when nothing does: what control does meanwhile, and what it takes nothing for. */
import { randomBytes } from 'node:crypto';
import type { Caller } from '@space/contract';
import { DEFAULT_ORGANISATION, DEFAULT_VAULT, type SandboxId, type VaultName } from '@space/core';
import { FakeKms, type FakeNode, fakeKmsDirectory } from '@space/testkit';
import { describe, expect, it } from 'vitest';
import { createControl } from '../src/control.ts';
import type { ControlPorts } from '../src/ports.ts';
import { VaultKeys, vaultNameOf } from '../src/vault-keys.ts';
import { Vaults } from '../src/vaults.ts';
import { eventually, NO_LEFTOVERS, World } from './test-world.ts';

const OWN = vaultNameOf(DEFAULT_ORGANISATION);
const CLOSE_AFTER_MS = 1_000;
const ignore = () => undefined;

/** A control whose organisation has a vault of its own, under a clock that the test holds. */
class Vaulted extends World {
  readonly kms = new FakeKms();
  nowMs = 1_700_000_000_000;
  readonly ports: ControlPorts = {
    node: this.node,
    records: this.records,
    chance: { bytes: (count) => randomBytes(count) },
    clock: { now: () => this.nowMs++, monotonicMs: () => this.nowMs },
    logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
    kms: fakeKmsDirectory(this.kms),
  };
  /** Beside the control's own, on the same node. */
  vaults = this.newVaults();

  constructor(before: { readonly node?: FakeNode } = {}) {
    super(before);
    this.restart();
  }

  newVaults(): Vaults {
    return new Vaults(this.ports, new VaultKeys(this.ports), { closeAfterMs: CLOSE_AFTER_MS });
  }

  restart(): void {
    this.control = createControl(this.ports, this.gateway);
  }

  /** As the control finds it that was not asked. */
  shut(): Promise<void> {
    return this.node.closeVault({ vault: OWN, endLives: false });
  }

  /** The host was off: no VM is left, and nothing is mounted. */
  powerOff(): Promise<void> {
    return this.node.closeVault({ vault: OWN, endLives: true });
  }

  get isOpen(): boolean {
    return this.node.fakeVaults.isOpen(OWN);
  }

  taken(step: string): number {
    return this.node.faults.steps.filter((one) => one === step).length;
  }

  async pausedAt(count: number): Promise<SandboxId> {
    const { id } = await this.create();
    await this.count(id, count);
    await this.pause(id);
    return id as SandboxId;
  }
}

describe('the vault of an organisation', () => {
  it('is made with its first sandbox, and holds it and its forks', async () => {
    const world = new Vaulted();
    const { id } = await world.create();
    await world.fork(id, 2);
    const vaults = (await world.records.allSandboxes()).map(({ vault }) => vault);
    expect(new Set(vaults)).toEqual(new Set([OWN]));
    const seen = (await world.node.vaults()).find(({ vault }) => vault === OWN);
    expect(seen).toMatchObject({ encrypted: true, state: 'open', lives: 3 });
    expect(await world.node.points(DEFAULT_VAULT)).toEqual([]);
    expect((await world.records.vaults.find(OWN))?.state).toBe('ready');
  });

  it('is opened once by many who need it at one time', async () => {
    const world = new Vaulted();
    await Promise.all([1, 2, 3, 4].map(() => world.create()));
    expect([world.taken('createVault'), world.taken('openVault')]).toEqual([1, 1]);
    expect(world.kms.asked.unwrap).toBe(1);
  });

  it('is opened by keys that are wiped once they were used', async () => {
    const world = new Vaulted();
    await world.create();
    expect(world.node.fakeVaults.keys.length).toBeGreaterThan(1);
    for (const key of world.node.fakeVaults.keys) expect(key.every((byte) => byte === 0)).toBe(true);
  });

  it('that cannot be opened leaves nothing of a create, which works once it can', async () => {
    const world = new Vaulted();
    await world.create();
    await world.remove((await world.records.allSandboxes())[0]?.id ?? '');
    await world.shut();
    world.kms.mood = 'down';
    await expect(world.create()).rejects.toMatchObject({ code: 'kms_unavailable' });
    expect(await world.records.allSandboxes()).toEqual([]);
    world.kms.mood = 'up';
    await world.create();
    for (const step of ['openVault', 'openVault done'] as const) {
      await world.remove((await world.records.allSandboxes())[0]?.id ?? '');
      await world.shut();
      world.node.faults.failNext(step);
      await expect(world.create()).rejects.toThrow();
      await world.create();
    }
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('whose container is gone is not made again in its place', async () => {
    const world = new Vaulted();
    const id = await world.pausedAt(1);
    await world.shut();
    await world.node.removeVault(OWN);
    await expect(world.resume(id)).rejects.toMatchObject({ code: 'vault_damaged' });
    expect(await world.node.vaults()).toHaveLength(1);
    expect(await world.get(id)).toMatchObject({ status: 'paused' });
  });
});

describe('while the vault is closed', () => {
  const verbs: readonly (readonly [string, (world: Vaulted, id: SandboxId) => Promise<unknown>])[] = [
    ['resume', (world, id) => world.resume(id)],
    ['exec', (world, id) => world.exec(id, 'read')],
    ['fork', (world, id) => world.fork(id)],
    ['rewind', async (world, id) => world.rewind(id, (await world.timeline(id))[0]?.id ?? '')],
    [
      'export',
      (world, id) => world.control.exportSandbox(world.caller(), { id, location: 'default', timeline: false }),
    ],
    ['move', (world, id) => world.control.moveSandbox(world.caller(), { id, location: 'default', timeline: false })],
    ['delete', (world, id) => world.remove(id)],
  ];

  it.each(verbs)('%s opens it', async (_name, act) => {
    const world = new Vaulted();
    const id = await world.pausedAt(3);
    await world.shut();
    await act(world, id);
    expect(world.isOpen).toBe(true);
    expect(await world.leftovers()).toMatchObject({ inFlight: [] });
  });

  it.each(verbs)('%s says that its KMS does not answer, and changes nothing', async (name, act) => {
    const world = new Vaulted();
    const id = await world.pausedAt(3);
    await world.snapshot(id, 'kept');
    await world.shut();
    world.kms.mood = 'down';
    await expect(act(world, id)).rejects.toMatchObject({ code: 'kms_unavailable' });
    if (name === 'delete') {
      // It is not taken back: it is done once the vault can be opened.
      world.kms.mood = 'up';
      await world.remove(id);
      expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
      return;
    }
    expect(await world.get(id)).toMatchObject({ status: 'paused' });
    expect(await world.leftovers()).toMatchObject({ inFlight: [] });
    world.kms.mood = 'up';
    await world.resume(id);
    expect(await world.exec(id, 'read')).toBe('3');
  });

  it('what is recorded is listed, read and changed without opening it', async () => {
    const world = new Vaulted();
    const id = await world.pausedAt(1);
    const kept = await world.snapshot(id, 'kept');
    await world.shut();
    const caller = world.caller();
    await world.control.listSandboxes(caller, { limit: 10 });
    await world.get(id);
    await world.timeline(id);
    await world.control.updateSandbox(caller, { id, idle: { pauseAfterMs: null } });
    await world.control.getCapabilities(caller, {});
    await world.control.listTemplates(caller, {});
    await world.control.updateSnapshot(caller, { id: kept.id, note: 'still' });
    expect(world.isOpen).toBe(false);
  });

  it('a reconciler takes nothing in it for gone, and opens nothing for what rests', async () => {
    const world = new Vaulted();
    const id = await world.pausedAt(2);
    await world.shut();
    world.restart();
    expect(await world.control.start()).toEqual({ recovered: 0, corrected: 0, unknown: [] });
    await world.control.close();
    expect(world.isOpen).toBe(false);
    expect(await world.get(id)).toMatchObject({ status: 'paused' });
    world.restart();
    await world.resume(id);
    expect(await world.exec(id, 'read')).toBe('2');
  });

  it('what was running when the host went off is looked for, by opening it', async () => {
    const world = new Vaulted();
    const { id } = await world.create();
    await world.count(id, 2);
    await world.snapshot(id);
    await world.powerOff();
    world.restart();
    expect(await world.control.start()).toMatchObject({ corrected: 1 });
    expect(await world.get(id)).toMatchObject({ status: 'crashed' });
    await world.resume(id);
    expect(await world.exec(id, 'read')).toBe('2');
    await world.control.close();
  });

  it('nothing in one that cannot be opened is told to run, and what it was is found out later', async () => {
    const world = new Vaulted();
    const { id } = await world.create();
    await world.count(id, 4);
    await world.pause(id);
    await world.resume(id);
    // It was paused by an order whose answer nobody got.
    const seen = await world.records.findSandbox(id as SandboxId);
    if (seen === null) throw new Error('it is recorded');
    const snapshotId = 'snp_00000000000000zz' as never;
    await world.node.pause({ vault: OWN, sandboxId: seen.id, epoch: seen.epoch + 1, snapshotId });
    await world.shut();
    world.kms.mood = 'down';
    world.restart();
    await world.control.start();
    expect(await world.get(id)).toMatchObject({
      status: 'crashed',
      crash: { detail: expect.stringContaining('vault') },
    });
    await world.control.close();
    world.kms.mood = 'up';
    world.restart();
    await world.resume(id);
    expect(await world.exec(id, 'read')).toBe('4');
  });

  it('an operation that a dead process left is ended once it can be opened', async () => {
    const world = new Vaulted();
    const id = await world.pausedAt(5);
    const held = world.node.faults.holdNext('start done');
    const lost = world.resume(id).catch(() => undefined);
    await held.reached;
    await world.powerOff();
    world.kms.mood = 'down';
    world.restart();
    await world.control.start();
    expect((await world.leftovers()).inFlight).toEqual([[id, 'resume']]);
    await world.control.close();
    world.kms.mood = 'up';
    world.restart();
    expect(await world.control.start()).toMatchObject({ recovered: 1 });
    expect((await world.leftovers()).inFlight).toEqual([]);
    held.letGo();
    await lost;
    await world.resume(id);
    expect(await world.exec(id, 'read')).toBe('5');
    await world.control.close();
  });
});

describe('a vault that nobody needs', () => {
  it('is closed after a while, and its keys are wiped', async () => {
    const world = new Vaulted();
    const keys = new VaultKeys(world.ports);
    const vaults = new Vaults(world.ports, keys, { closeAfterMs: CLOSE_AFTER_MS });
    await world.pausedAt(1);
    await world.shut();
    await vaults.ensureOpen(OWN);
    expect(keys.held()).toEqual([OWN]);
    await vaults.closeUnused();
    expect(world.isOpen).toBe(true);
    world.nowMs += 2 * CLOSE_AFTER_MS;
    await vaults.closeUnused();
    expect(world.isOpen).toBe(false);
    expect(keys.held()).toEqual([]);
  });

  it('is not the one of before, nor one in which something runs or is under way', async () => {
    const world = new Vaulted();
    const { vaults } = world;
    const node = vaults.before(world.node);
    const { id } = await world.create();
    await vaults.closeUnused();
    world.nowMs += 2 * CLOSE_AFTER_MS;
    await vaults.closeUnused();
    expect(world.isOpen).toBe(true);
    await world.pause(id);
    const held = world.node.faults.holdNext('deletePoint');
    const removed = node.deletePoint(OWN, 'snp_0000000000000000' as never);
    await held.reached;
    world.nowMs += 2 * CLOSE_AFTER_MS;
    await vaults.closeUnused();
    expect(world.isOpen).toBe(true);
    held.letGo();
    await removed;
    world.nowMs += 2 * CLOSE_AFTER_MS;
    await vaults.closeUnused();
    expect(world.isOpen).toBe(false);
    expect(world.node.fakeVaults.isOpen(DEFAULT_VAULT)).toBe(true);
  });

  it('is opened again by who comes while it is being closed', async () => {
    const world = new Vaulted();
    const id = await world.pausedAt(7);
    const { vaults } = world;
    await vaults.ensureOpen(OWN);
    const held = world.node.faults.holdNext('closeVault done');
    const closing = vaults.close(OWN, { endLives: false });
    await held.reached;
    const opened = vaults.ensureOpen(OWN);
    held.letGo();
    await Promise.all([closing, opened]);
    expect(world.isOpen).toBe(true);
    await world.resume(id);
    expect(await world.exec(id, 'read')).toBe('7');
  });
});

describe('a vault that is open', () => {
  it('is used on by a control that was started while its KMS does not answer', async () => {
    const world = new Vaulted();
    const { id } = await world.create();
    await world.count(id, 1);
    world.kms.mood = 'down';
    world.restart();
    expect(await world.control.start()).toMatchObject({ corrected: 0 });
    expect(await world.exec(id, 'read')).toBe('1');
    await world.snapshot(id);
    await world.pause(id);
    expect(await world.get(id)).toMatchObject({ status: 'paused' });
    // What stops it asks nobody.
    expect(world.kms.asked.unwrap).toBe(1);
    await world.control.close();
  });

  it('is paused and deleted in without anybody being asked, and asked for once what runs in it is seen', async () => {
    const world = new Vaulted();
    const [paused, removed, left] = await Promise.all([1, 2, 3].map(() => world.create()));
    if (paused === undefined || removed === undefined || left === undefined) throw new Error('there are three');
    world.kms.mood = 'down';
    world.restart();
    const before = world.kms.asked.unwrap;
    await world.pause(paused.id);
    await world.remove(removed.id);
    expect(world.kms.asked.unwrap).toBe(before);
    const keys = new VaultKeys(world.ports);
    const vaults = new Vaults(world.ports, keys, { closeAfterMs: CLOSE_AFTER_MS });
    await vaults.closeUnused();
    expect(keys.held()).toEqual([]);
    world.kms.mood = 'up';
    world.nowMs += 60_000;
    await vaults.closeUnused();
    expect(keys.held()).toEqual([OWN]);
    expect(world.isOpen).toBe(true);
    expect(await world.get(left.id)).toMatchObject({ status: 'running' });
  });

  it('has what is doomed removed, and one that is closed when it is opened again', async () => {
    const world = new Vaulted();
    const id = await world.pausedAt(1);
    const point = await world.snapshot(id, 'kept');
    await world.resume(id);
    await world.pause(id);
    await world.shut();
    await world.control.deleteSnapshot(world.caller(), { id: point.id });
    expect(world.node.pointIds()).toContain(point.id);
    const among = async () =>
      world.records.history.doomed(10, new Date(world.nowMs), { among: await world.vaults.opened() });
    expect(await among()).toEqual([]);
    await world.control.start();
    await world.resume(id);
    world.vaults.forget();
    expect((await among()).length).toBeLessThanOrEqual(1);
    await eventually(
      async () => world.node.pointIds(),
      (points) => !points.includes(point.id as never),
    );
    await world.control.close();
  });

  it('is shown to its organisation and to who runs the installation, and to nobody else', async () => {
    const world = new Vaulted();
    await world.create();
    const { organisation, project } = await world.control.createOrganisation(world.caller(), { name: 'other' });
    const caller = world.caller();
    const principal = { ...caller.principal, organisationId: organisation.id as never, operator: false };
    const other: Caller = { ...caller, principal, projectId: project.id as never };
    const namesFor = async (who: Caller) =>
      (await world.control.getCapabilities(who, {})).vaults.map(({ name }) => name as VaultName);
    expect(await namesFor(caller)).toContain(OWN);
    expect(await namesFor(other)).toEqual([DEFAULT_VAULT]);
    await world.control.createSandbox(other, {});
    expect(await namesFor(other)).toEqual([vaultNameOf(organisation.id as never)]);
    expect(await namesFor(caller)).toHaveLength(3);
  });
});
