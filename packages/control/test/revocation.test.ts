/** A revocation while sandboxes run, are forked, exported and woken: what stops, when, and that all is back afterwards. */
import {
  DEFAULT_PROJECT,
  DEFAULT_SIZE,
  FIRST_STATE,
  newId,
  PLATFORM_KEY,
  type SandboxId,
  type SnapshotId,
} from '@space/core';
import { seededChance } from '@space/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Keyed, OWN } from './keyed-world.ts';
import { eventually, NO_LEFTOVERS } from './test-world.ts';

const chance = seededChance(Date.now());
const REVOKED = expect.objectContaining({ code: 'vault_revoked' });

let world: Keyed;
let ids: SandboxId[];
beforeEach(async () => {
  world = new Keyed();
  await world.control.start();
  const made = await Promise.all(Array.from({ length: 10 }, () => world.create()));
  ids = made.map(({ id }) => id as SandboxId);
  await Promise.all(ids.map((id, index) => world.count(id, index + 1)));
});
afterEach(() => world.control.close());

const [first = 0, second = 1] = [0, 1];
const id = (index: number) => {
  const found = ids[index];
  if (found === undefined) throw new Error('there is no such sandbox');
  return found;
};

it('stops everything at once, pauses what runs, closes the vault, and gives all back', async () => {
  const { id: snapshot } = await world.snapshot(id(first), 'kept');
  const held = world.node.faults.holdNext('pause');
  await world.revoke();
  // While the first are still being paused.
  const attempts: readonly (() => Promise<unknown>)[] = [
    () => world.create(),
    () => world.control.createSandbox(world.caller(), { snapshot }),
    () => world.fork(id(second)),
    () => world.fork(id(first), 1, 'kept'),
    () => world.rewind(id(first), 'kept'),
    () => world.exec(id(second), 'read'),
    () => world.processes(id(second)),
    () => world.control.getSandboxConsole(world.caller(), { id: id(second) }),
    () => world.snapshot(id(second)),
    () => world.control.exportSandbox(world.caller(), { id: id(second), location: 'default', timeline: false }),
    () => world.control.statFile(world.caller(), { id: id(second), path: 'a', followSymlinks: true } as never),
  ];
  for (const attempt of attempts) await expect(attempt()).rejects.toEqual(REVOKED);
  held.letGo();
  await world.untilClosed();
  for (const attempt of attempts) await expect(attempt()).rejects.toEqual(REVOKED);
  await expect(world.resume(id(second))).rejects.toEqual(REVOKED);
  const statuses = await Promise.all(ids.map((one) => world.get(one)));
  expect(new Set(statuses.map(({ status }) => status))).toEqual(new Set(['paused']));
  // Nothing was asked of the KMS since.
  const asked = world.kms.asked.unwrap;
  await expect(world.resume(id(second))).rejects.toEqual(REVOKED);
  expect(world.kms.asked.unwrap).toBe(asked);

  await world.reinstate();
  for (const [index, one] of ids.entries()) expect(await world.exec(one, 'read')).toBe(`${index + 1}`);
  await world.rewind(id(first), 'kept');
  expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
});

it('ends what was begun before, by that reason, and waits for no pause', async () => {
  const held = world.node.faults.holdNext('pause');
  const target = { id: id(second) };
  const began = Promise.withResolvers<void>();
  const command = (async () => {
    for await (const event of world.control.exec(world.caller(), { ...target, command: 'sleep 600' })) {
      if (event.kind === 'started') began.resolve();
    }
  })();
  const watching = (async () => {
    const events = world.control.watchFiles(world.caller(), { ...target, path: '/', recursive: false } as never);
    for await (const _ of events);
  })();
  const ends = Promise.all(
    [command, watching].map((one) =>
      one.then(
        () => 'ended',
        (thrown: unknown) => thrown,
      ),
    ),
  );
  await began.promise;
  await world.revoke();
  expect(await ends).toEqual([REVOKED, REVOKED]);
  expect(world.isOpen()).toBe(true);
  held.letGo();
  await world.untilClosed();
});

it('ends what runs where the vault says so, and it goes on from its last point later', async () => {
  await world.control.updateVault(world.holder(), { id: OWN, onRevoke: 'kill' });
  await world.snapshot(id(first));
  await world.count(id(first));
  await world.revoke();
  await world.untilClosed();
  await eventually(
    () => Promise.all(ids.map((one) => world.get(one))),
    (all) => all.every(({ status }) => status === 'crashed'),
  );
  expect(world.node.faults.steps).not.toContain('pause');
  await world.reinstate();
  await world.resume(id(first));
  expect(await world.exec(id(first), 'read')).toBe('1');
});

it('pauses what can be paused, and ends the others, which keep what they had', async () => {
  world.node.faults.failNext('pause');
  await world.revoke();
  await world.untilClosed();
  const statuses = await Promise.all(ids.map(async (one) => (await world.get(one)).status));
  expect(statuses.filter((status) => status === 'paused').length).toBeGreaterThanOrEqual(9);
  await world.reinstate();
  await Promise.all(ids.map((one) => world.resume(one)));
  expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
});

it.each(['fork', 'create', 'export'] as const)('that comes during a %s leaves the vault closed', async (verb) => {
  const step = verb === 'export' ? 'exportPoints' : 'start';
  const held = world.node.faults.holdNext(step);
  const work = (
    verb === 'fork'
      ? world.fork(id(first))
      : verb === 'create'
        ? world.create()
        : world.control.exportSandbox(world.caller(), { id: id(first), location: 'default', timeline: false })
  ).then(
    () => 'done',
    (thrown: unknown) => thrown,
  );
  await held.reached;
  await world.revoke();
  held.letGo();
  await work;
  await world.untilClosed();
  expect(world.isOpen()).toBe(false);
  await expect(world.create()).rejects.toEqual(REVOKED);
  await world.reinstate();
  expect(await world.exec(id(second), 'read')).toBe('2');
  await eventually(
    () => world.leftovers(),
    (left) => left.inFlight.length === 0,
  );
});

it('that comes while the vault is being opened wins', async () => {
  await Promise.all(ids.map((one) => world.pause(one)));
  await world.node.closeVault({ vault: OWN, endLives: false });
  const held = world.node.faults.holdNext('openVault');
  const resuming = world.resume(id(first)).catch((thrown: unknown) => thrown);
  await held.reached;
  await world.revoke();
  held.letGo();
  expect(await resuming).toEqual(REVOKED);
  await world.untilClosed();
  expect(await world.get(id(first))).toMatchObject({ status: 'paused' });
});

it('a KMS that is away stops nothing that runs, and what needs it is told to ask again', async () => {
  world.kms.mood = 'down';
  expect(await world.exec(id(first), 'read')).toBe('1');
  await world.fork(id(second));
  await world.create();
  expect(world.isOpen()).toBe(true);
});

it('a vault that is destroyed takes nothing of another organisation with it', async () => {
  const next = { name: 'next', kms: 'local', key: 'a', isDefault: true, onRevoke: 'pause', outageMs: null } as const;
  await world.control.createVault(world.holder(), next);
  await world.revoke();
  await world.untilClosed();
  // As where two had a vault of one name.
  const all = world.records.allSandboxes.bind(world.records);
  const projectId = newId('project', world.chance);
  world.records.allSandboxes = async () =>
    (await all()).map((one) => (one.id === id(second) ? { ...one, projectId } : one));
  await world.control.deleteVault(world.holder(), { id: OWN });
  const left = (await all()).filter(({ settled }) => settled !== 'deleted');
  expect(left.map((one) => one.id)).toEqual([id(second)]);
});

it('a vault that is destroyed takes with it what lay in it, and nothing of that is listed or left to be done', async () => {
  await world.snapshot(id(first), 'kept');
  await expect(world.control.deleteVault(world.holder(), { id: OWN })).rejects.toMatchObject({ code: 'vault_in_use' });
  const next = { name: 'next', kms: 'local', key: 'a', isDefault: true, onRevoke: 'pause', outageMs: null } as const;
  await world.control.createVault(world.holder(), next);
  const { id: other } = await world.create();
  await expect(world.control.deleteVault(world.holder(), { id: OWN })).rejects.toMatchObject({ code: 'vault_in_use' });
  await world.revoke();
  await world.control.deleteVault(world.holder(), { id: OWN });
  const { sandboxes } = await world.control.listSandboxes(world.caller(), { limit: 100 });
  expect(sandboxes.map((sandbox) => sandbox.id)).toEqual([other]);
  expect((await world.control.listSnapshots(world.caller(), { limit: 100 })).snapshots).toEqual([]);
  await expect(world.resume(id(first))).rejects.toMatchObject({ code: 'not_found' });
  expect(await world.exec(other, 'echo on')).toBe('on');
  expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
});

it('a vault that is not revoked and holds only named snapshots or builds of templates is not deleted', async () => {
  await world.snapshot(id(first), 'precious');
  const { snapshots } = await world.control.listSnapshots(world.caller(), { limit: 10 });
  const snapshotId = snapshots[0]?.id as SnapshotId;
  const { templateId } = await recordBuild(snapshotId);
  const next = { name: 'next', kms: 'local', key: 'a', isDefault: true, onRevoke: 'pause', outageMs: null } as const;
  await world.control.createVault(world.holder(), next);
  for (const one of ids) await world.remove(one);
  const remove = () => world.control.deleteVault(world.holder(), { id: OWN });
  const refused = (what: string) => ({ code: 'vault_in_use', message: expect.stringContaining(what) });
  await expect(remove()).rejects.toMatchObject(refused('holds the snapshot precious, a build of the template web.'));
  expect((await world.control.listSnapshots(world.caller(), { limit: 10 })).snapshots).toHaveLength(1);
  await world.records.templates.deleteTemplate(templateId);
  await world.control.deleteSnapshot(world.caller(), { id: snapshotId });
  await remove();
  expect(await world.records.vaults.find(OWN)).toMatchObject({ state: 'removed' });
});

/** A ready build, as `template-builds.ts` leaves one. */
async function recordBuild(snapshotId: SnapshotId) {
  const { templates } = world.records;
  const at = new Date();
  const own = { projectId: DEFAULT_PROJECT, createdAt: at };
  const template = { ...own, id: newId('template', chance), name: 'web', updatedAt: at };
  const unknown = { size: null, recipe: null, state: null, failure: null, snapshotId: null, endedAt: null } as const;
  const asked = {
    status: 'waiting',
    askedSize: null,
    tags: ['default'],
    cachedSteps: 0,
    askedBy: PLATFORM_KEY,
  } as const;
  const ids = { id: newId('build', chance), templateId: template.id };
  const build = await templates.request(template, { ...own, ...unknown, ...asked, ...ids }, 10);
  await templates.startBuild(build.id, { from: 'base', steps: [] });
  const end = { failure: null, snapshotId, state: FIRST_STATE, size: DEFAULT_SIZE, cachedSteps: 0, at };
  await templates.endBuild(build.id, { status: 'ready', ...end });
  return build;
}

describe('a deletion that fails half-way', () => {
  const next = { name: 'next', kms: 'local', key: 'a', isDefault: true, onRevoke: 'pause', outageMs: null } as const;
  const remove = () => world.control.deleteVault(world.holder(), { id: OWN });
  const onNode = async () => (await world.node.vaults()).some(({ vault }) => vault === OWN);
  const stateOf = async () => (await world.records.vaults.find(OWN))?.state;
  const listed = async () => (await world.control.listSandboxes(world.caller(), { limit: 100 })).sandboxes.length;
  beforeEach(async () => {
    await world.control.createVault(world.holder(), next);
    await world.control.updateVault(world.holder(), { id: OWN, onRevoke: 'kill' });
    await world.revoke();
    await world.untilClosed();
  });

  it('says so, is shown as such, takes nothing more, and is finished by who asks again', async () => {
    world.node.faults.failNext('removeVault');
    await expect(remove()).rejects.toMatchObject({ code: 'operation_in_progress', facts: { vault: OWN } });
    expect(await world.records.vaults.find(OWN)).toMatchObject({ state: 'removing', keyring: null });
    expect(await world.control.getVault(world.holder(), { id: OWN })).toMatchObject({ state: 'deleting' });
    const gone = expect.objectContaining({ code: 'not_found' });
    await expect(world.reinstate()).rejects.toEqual(gone);
    await expect(world.control.updateVault(world.holder(), { id: OWN, isDefault: true })).rejects.toEqual(gone);
    expect(await onNode()).toBe(true);
    await remove();
    expect([await onNode(), await listed(), await stateOf()]).toEqual([false, 0, 'removed']);
    await expect(remove()).rejects.toEqual(gone);
  });

  it('is finished by the next process', async () => {
    world.node.faults.failNext('removeVault');
    await expect(remove()).rejects.toMatchObject({ code: 'operation_in_progress' });
    await world.control.close();
    world.restart();
    await world.control.start();
    await eventually(stateOf, (state) => state === 'removed');
    expect([await onNode(), await listed()]).toEqual([false, 0]);
  });
});
