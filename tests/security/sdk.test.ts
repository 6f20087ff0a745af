/** The SDK's calls that concern no single sandbox, and schedules, against the real control. */
import {
  audit,
  createKey,
  createOrganisation,
  createProject,
  deleteProject,
  events,
  getLimits,
  getMetrics,
  getProject,
  listKeys,
  listOrganisations,
  listProjects,
  operations,
  renameOrganisation,
  Sandbox,
  SpaceError,
  setLimits,
  updateProject,
} from '@space/sdk';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { World } from './world.ts';

let world: World;
let connection: { readonly baseUrl: string; readonly apiKey: string };

beforeAll(async () => {
  world = await World.start();
  connection = { baseUrl: world.url, apiKey: world.operatorKey };
});
afterAll(() => world[Symbol.asyncDispose]());

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const thrown = await promise.then(
    () => null,
    (error: unknown) => error,
  );
  if (thrown instanceof SpaceError) return thrown.code;
  throw new Error(`not a SpaceError: ${thrown}`, { cause: thrown });
}

it('projects are made, renamed, worked in and deleted', async () => {
  const made = await createProject('one', connection);
  expect(await updateProject('one', { name: 'two' }, connection)).toEqual({ ...made, name: 'two' });
  expect(await codeOf(getProject('one', connection))).toBe('not_found');
  expect(new Set((await listProjects(connection)).map(({ name }) => name))).toEqual(new Set(['default', 'two']));
  const sandbox = await Sandbox.create({ ...connection, project: 'two' });
  expect(await codeOf(deleteProject('two', connection))).toBe('project_not_empty');
  await deleteProject('two', { ...connection, force: true });
  expect(await codeOf(sandbox.refresh())).toBe('not_found');
  expect(await codeOf(deleteProject('default', connection))).toBe('last_project');
});

it('organisations are made, renamed and limited by who runs the installation', async () => {
  const { organisation, key } = await createOrganisation('acme', connection);
  expect((await renameOrganisation(organisation.id, 'acme-two', connection)).name).toBe('acme-two');
  expect((await listOrganisations(connection)).map(({ name }) => name)).toContain('acme-two');
  expect((await setLimits(organisation.id, { sandboxes: 3 }, connection)).limits.sandboxes).toBe(3);
  const theirs = { ...connection, apiKey: key.secretKey ?? '' };
  expect(await getLimits(theirs)).toMatchObject({ limits: { sandboxes: 3 }, present: { sandboxes: 0 } });
  expect(await codeOf(listOrganisations(theirs))).toBe('forbidden');
});

it('what was done and what happened is told', async () => {
  await using sandbox = await Sandbox.create(connection);
  const kinds = [];
  for await (const operation of operations({ ...connection, sandboxId: sandbox.id })) kinds.push(operation.kind);
  expect(kinds).toEqual(['create']);
  const happened = await Array.fromAsync(events({ ...connection, follow: false }));
  expect(happened.map(({ kind }) => kind)).toContain('sandbox.created');
  const calls = [];
  for await (const record of audit(connection)) calls.push(record.call);
  expect(calls).toContain('createSandbox');
  expect(await getMetrics(connection)).toContain('space_operation_duration_seconds');
});

it('schedules are made, listed, changed and deleted', async () => {
  await using sandbox = await Sandbox.create(connection);
  const made = await sandbox.schedules.create({ cron: '@daily', timeZone: 'Europe/Berlin', exec: ['echo', 'a b'] });
  expect(made).toMatchObject({ exec: { argv: ['echo', 'a b'] }, enabled: true, lastRuns: [] });
  expect(await sandbox.schedules.list()).toEqual([made]);
  const changed = await sandbox.schedules.update(made.id, { exec: null, enabled: false });
  expect(changed).toMatchObject({ exec: null, nextRunAt: null, cron: '@daily' });
  expect(await codeOf(sandbox.schedules.create({ cron: '61 * * * *' }))).toBe('bad_request');
  await sandbox.schedules.delete(made.id);
  expect(await codeOf(sandbox.schedules.get(made.id))).toBe('not_found');
  const wakeAt = new Date(Date.now() + 3_600_000);
  expect((await sandbox.update({ wakeAt })).fields.wakeAt).toBe(wakeAt.toISOString());
  expect((await sandbox.update({ wakeAt: null })).fields.wakeAt).toBeNull();
});

it('an option that does not exist is refused, before anything is sent', async () => {
  await using sandbox = await Sandbox.create(connection);
  const misspelt = { pauseAfter: 1 } as object;
  const calls = [
    () => Sandbox.create({ ...connection, ...misspelt }),
    () => Sandbox.connect(sandbox.id, { ...connection, ...misspelt }),
    () => sandbox.snapshot(misspelt),
    () => sandbox.fork(1, misspelt),
    () => sandbox.files.list('/', misspelt),
    () => sandbox.files.write('a', 'b', misspelt),
    () => Array.fromAsync(sandbox.attach('prc_0123456789abcdef', misspelt)),
    () => sandbox.schedules.create({ cron: '@daily', ...misspelt }),
    () => createKey({ ...connection, roles: ['viewer'], ...misspelt }),
    () => listKeys({ ...connection, ...misspelt }),
    () => listProjects({ ...connection, ...misspelt }),
    () => deleteProject('default', { ...connection, ...misspelt }),
  ];
  const before = world.node.faults.steps.length;
  for (const call of calls) expect(await codeOf(new Promise((resolve) => resolve(call())))).toBe('misused');
  expect(world.node.faults.steps.length).toBe(before);
});
