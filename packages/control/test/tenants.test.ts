import { DEFAULT_ORGANISATION, DEFAULT_PROJECT, type Role } from '@space/core';
import { FakeGateway } from '@space/testkit';
import { beforeEach, describe, expect, it } from 'vitest';
import { ActivityLog } from '../src/activity.ts';
import { Admission } from '../src/admission.ts';
import { createApiKey } from '../src/api-keys.ts';
import { Nursery } from '../src/birth.ts';
import { Driver } from '../src/driver.ts';
import { Effects } from '../src/effects.ts';
import { Metrics } from '../src/metrics.ts';
import { Network } from '../src/network.ts';
import { ProjectPurge } from '../src/project-purge.ts';
import { Reconciler } from '../src/reconcile.ts';
import { Pins } from '../src/timeline.ts';
import { Vaults } from '../src/vaults.ts';
import { World } from './test-world.ts';

let world: World;
const clock = { now: () => Date.now(), monotonicMs: () => performance.now() };

beforeEach(() => {
  world = new World();
});

const newKey = (roles: Role[], project?: string) =>
  world.control.createKey(world.caller(), { roles, ...(project === undefined ? {} : { project }) });

/** A call by a key, as a face of the API makes it. */
async function callerOf(secretKey: string | null, project?: string) {
  const identity = await world.control.authenticate(secretKey ?? '', project);
  if (identity === null) throw new Error('the key does not work');
  return { ...identity, requestId: 'req', signal: new AbortController().signal };
}

describe('keys', () => {
  it('are known by their whole text, and kept as a digest only', async () => {
    const { records, chance } = world;
    const { id, secretKey } = await createApiKey({ records, chance, clock });
    const found = await world.control.authenticate(secretKey);
    expect(found).toEqual({
      principal: {
        apiKeyId: id,
        organisationId: DEFAULT_ORGANISATION,
        operator: true,
        onlyProject: null,
        roles: ['admin'],
      },
      projectId: DEFAULT_PROJECT,
    });
    for (const wrong of [`${secretKey}x`, secretKey.slice(0, -1), '', 'space_', `${secretKey} `, `${secretKey}\0`]) {
      expect(await world.control.authenticate(wrong)).toBeNull();
    }
    const { keys } = await world.control.listKeys(world.caller(), { limit: 10 });
    expect(keys).toMatchObject([{ id, prefix: secretKey.slice(0, 10), roles: ['admin'] }]);
    expect(JSON.stringify([keys, await records.tenants.findKeyHolder(new Uint8Array(32))])).not.toContain(secretKey);
  });

  it('choose the project: their only one, the named one, or the first', async () => {
    await newKey(['admin']);
    const second = await world.control.createProject(world.caller(), { name: 'second' });
    const wide = (await newKey(['developer'])).secretKey;
    const narrow = (await newKey(['developer'], 'second')).secretKey;
    expect((await callerOf(wide)).projectId).toBe(DEFAULT_PROJECT);
    expect((await callerOf(wide, 'second')).projectId).toBe(second.id);
    expect((await callerOf(wide, second.id)).projectId).toBe(second.id);
    expect((await callerOf(narrow)).projectId).toBe(second.id);
    for (const [key, project] of [
      [wide, 'third'],
      [narrow, 'default'],
      [narrow, DEFAULT_PROJECT],
    ] as const) {
      await expect(callerOf(key, project)).rejects.toMatchObject({ code: 'not_found' });
    }
  });

  it('stop working at once when they are revoked, and their open streams end', async () => {
    await newKey(['admin']);
    const { id, secretKey } = await newKey(['developer']);
    const sandbox = await world.create();
    const caller = await callerOf(secretKey);
    const events = world.control.exec(caller, { id: sandbox.id, command: 'forever' })[Symbol.asyncIterator]();
    await events.next();
    const end = events.next();
    await world.control.revokeKey(world.caller(), { id });
    await expect(end).rejects.toMatchObject({ code: 'unauthenticated' });
    expect(await world.control.authenticate(secretKey ?? '')).toBeNull();
  });

  it('end what they are reading when they are revoked, and are not watched once it is read', async () => {
    await newKey(['admin']);
    const { id, secretKey } = await newKey(['developer']);
    const sandbox = await world.create();
    const caller = await callerOf(secretKey);
    const content = async function* () {
      yield Buffer.from('content');
    };
    await world.control.writeFile(caller, { id: sandbox.id, path: '/f' }, content());
    const whole = await world.control.readFile(caller, { id: sandbox.id, path: '/f' });
    expect(Buffer.concat(await Array.fromAsync(whole.body)).toString()).toBe('content');
    const { body } = await world.control.readFile(caller, { id: sandbox.id, path: '/f' });
    const chunks = body[Symbol.asyncIterator]();
    await chunks.next();
    await world.control.revokeKey(world.caller(), { id });
    await expect(chunks.next()).rejects.toMatchObject({ code: 'unauthenticated' });
  });

  it('end their streams within two seconds when another process revoked them', async () => {
    await newKey(['admin']);
    const { id, secretKey } = await newKey(['developer']);
    const sandbox = await world.create();
    const events = world.control.exec(await callerOf(secretKey), { id: sandbox.id, command: 'forever' });
    const iterator = events[Symbol.asyncIterator]();
    await iterator.next();
    const end = iterator.next();
    const before = performance.now();
    await world.records.tenants.revokeApiKey(DEFAULT_ORGANISATION, id, new Date());
    await expect(end).rejects.toMatchObject({ code: 'unauthenticated' });
    expect(performance.now() - before).toBeLessThan(2_000);
  });

  it('leave one admin', async () => {
    const { id } = await newKey(['admin']);
    await newKey(['developer']);
    await expect(world.control.revokeKey(world.caller(), { id })).rejects.toMatchObject({ code: 'last_admin' });
  });
});

describe('the gate', () => {
  it('refuses by role before anything is done, streams included', async () => {
    await newKey(['admin']);
    const sandbox = await world.create();
    await world.pause(sandbox.id);
    const viewer = await callerOf((await newKey(['viewer'])).secretKey);
    expect((await world.control.getSandbox(viewer, { id: sandbox.id })).status).toBe('paused');
    const events = world.control.exec(viewer, { id: sandbox.id, command: 'read' })[Symbol.asyncIterator]();
    await expect(events.next()).rejects.toMatchObject({ code: 'forbidden' });
    await expect(world.control.resumeSandbox(viewer, { id: sandbox.id })).rejects.toMatchObject({ code: 'forbidden' });
    expect((await world.get(sandbox.id)).status).toBe('paused');
  });

  it('keeps projects of one organisation apart', async () => {
    await newKey(['admin']);
    await world.control.createProject(world.caller(), { name: 'second' });
    const { secretKey } = await newKey(['developer']);
    const [first, second] = [await callerOf(secretKey), await callerOf(secretKey, 'second')];
    const here = await world.control.createSandbox(first, { name: 'same' });
    const there = await world.control.createSandbox(second, { name: 'same' });
    expect((await world.control.getSandbox(first, { id: 'same' })).id).toBe(here.id);
    expect((await world.control.getSandbox(second, { id: 'same' })).id).toBe(there.id);
    await expect(world.control.getSandbox(first, { id: there.id })).rejects.toMatchObject({ code: 'not_found' });
    const { sandboxes } = await world.control.listSandboxes(second, { limit: 10 });
    expect(sandboxes.map(({ id }) => id)).toEqual([there.id]);
  });
});

describe('a project that is deleted', () => {
  async function fullProject() {
    const { id: projectId } = await world.control.createProject(world.caller(), { name: 'full' });
    const caller = { ...world.caller(), projectId };
    const kept = await world.create();
    const made = await Promise.all([1, 2, 3].map(() => world.control.createSandbox(caller, {})));
    await world.control.takeSnapshot(caller, { id: made[0]?.id ?? '', name: 'named' });
    const remove = (force: boolean) => world.control.deleteProject(world.caller(), { id: 'full', force });
    return { projectId, caller, kept, made, remove };
  }

  it('stays while it holds anything, unless it is forced, and then goes with all of it and with nothing else', async () => {
    const { caller, kept, remove } = await fullProject();
    const key = (await newKey(['developer'], 'full')).secretKey;
    await expect(remove(false)).rejects.toMatchObject({ code: 'project_not_empty' });
    await remove(true);
    expect(world.node.sandboxIds()).toEqual([kept.id]);
    expect(world.node.pointIds()).toEqual([]);
    expect(await world.control.authenticate(key ?? '')).toBeNull();
    await expect(remove(true)).rejects.toMatchObject({ code: 'not_found' });
    await expect(world.control.getSnapshot(caller, { id: 'named' })).rejects.toMatchObject({ code: 'not_found' });
    expect((await world.control.createProject(world.caller(), { name: 'full' })).name).toBe('full');
    const last = world.control.listProjects(world.caller(), { limit: 10 });
    expect((await last).projects).toHaveLength(2);
  });

  it('is emptied by the next process when the first died in the middle', async () => {
    const { projectId, kept, remove } = await fullProject();
    const held = world.node.faults.holdNext('destroy');
    const lost = remove(true);
    await held.reached;
    world.newControl();
    await world.control.start();
    const purge = new ProjectPurge(machineryOf(world));
    held.letGo();
    await lost;
    await purge.round();
    expect(world.node.sandboxIds()).toEqual([kept.id]);
    expect(world.node.pointIds()).toEqual([]);
    expect(await world.records.tenants.projectsToPurge()).not.toContain(projectId);
  });

  it('is not found from the begin on, and is emptied later when the node does not answer now', async () => {
    const { projectId, kept, remove } = await fullProject();
    world.node.faults.failNext('destroy');
    await remove(true);
    expect(await world.records.tenants.projectsToPurge()).toEqual([projectId]);
    await expect(remove(true)).rejects.toMatchObject({ code: 'not_found' });
    await new ProjectPurge(machineryOf(world)).round();
    expect(world.node.sandboxIds()).toEqual([kept.id]);
  });

  it('is never the last of its organisation', async () => {
    const last = world.control.deleteProject(world.caller(), { id: 'default', force: true });
    await expect(last).rejects.toMatchObject({ code: 'last_project' });
  });
});

/** As another process on the same records and node has it. */
function machineryOf({ node, records, chance }: World) {
  const ports = { node, records, chance, clock, logger: { debug() {}, info() {}, warn() {}, error() {} } };
  const metrics = new Metrics();
  const reconciler: Reconciler = new Reconciler(ports, (id) => driver.owns(id), metrics, new Vaults(ports));
  const driver = new Driver(ports, metrics, (orphan) => reconciler.recover(orphan));
  const activity = new ActivityLog(clock);
  const admission = new Admission(ports);
  return {
    ports,
    activity,
    driver,
    effects: new Effects(ports, admission),
    nursery: new Nursery(ports, driver, admission),
    pins: new Pins(),
    network: new Network(ports, new FakeGateway()),
    vaults: new Vaults(ports),
  };
}
