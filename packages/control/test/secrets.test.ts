import type { Input } from '@space/contract';
import { DEFAULT_ORGANISATION, DEFAULT_PROJECT, type Role, type SandboxId } from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { World } from './test-world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});
afterEach(() => world.control.close());

const SEALED = Buffer.from('sealed').toString('base64');
const BINDING: Input<'setSecretBinding'> = {
  id: 'api',
  secret: 'token',
  hosts: ['api.example.com'],
  ports: [443],
  methods: 'all',
  paths: ['/'],
  place: { in: 'bearer' },
  projects: [DEFAULT_PROJECT],
  env: 'API_KEY',
};

const as = (...roles: Role[]) => {
  const caller = world.caller();
  return { ...caller, principal: { ...caller.principal, roles } };
};

async function bind(changes: Partial<Input<'setSecretBinding'>> = {}): Promise<void> {
  await world.control.setSecret(as('key_holder'), { id: 'token', sealed: SEALED });
  await world.control.setSecretBinding(as('key_holder'), { ...BINDING, ...changes });
}

const create = async (secrets?: string[]) =>
  (await world.control.createSandbox(as('developer'), secrets === undefined ? {} : { secrets })).id;
const boundOf = (id: SandboxId) => world.gateway.rules.get(id)?.secrets;

describe('a secret', () => {
  it('goes to the gateway sealed, and nothing of it is recorded or shown', async () => {
    await bind();
    expect([...world.gateway.secrets]).toEqual([[`${DEFAULT_ORGANISATION} token`, SEALED]]);
    const { secrets } = await world.control.listSecrets(as('key_holder'), {});
    expect(secrets).toMatchObject([{ name: 'token', source: { kind: 'local' }, version: 1 }]);
    const shown = [secrets, await world.control.listSecretBindings(as('admin'), {})];
    expect(JSON.stringify(shown)).not.toContain(SEALED);
    expect(await world.control.getSealingKey(as('key_holder'), {})).toMatchObject({
      organisation: DEFAULT_ORGANISATION,
    });
  });

  it('of another place is not kept by the gateway any more', async () => {
    await bind();
    const source = { kind: 'store', store: 'vault', path: 'a', field: null } as const;
    expect(await world.control.setSecret(as('admin'), { id: 'token', source })).toMatchObject({ source, version: 2 });
    expect(world.gateway.secrets.size).toBe(0);
  });

  it('is set by nobody while the gateway does not answer', async () => {
    world.gateway.isDown = true;
    await expect(bind()).rejects.toMatchObject({ code: 'unavailable' });
    world.gateway.isDown = false;
    expect((await world.control.listSecrets(as('admin'), {})).secrets).toEqual([]);
  });

  it.each<Role>(['developer', 'viewer', 'reviewer'])(
    'is nothing that the role %s lists, sets or deletes',
    async (role) => {
      await bind();
      const { control } = world;
      await expect(control.listSecrets(as(role), {})).rejects.toMatchObject({ code: 'forbidden' });
      await expect(control.getSealingKey(as(role), {})).rejects.toMatchObject({ code: 'forbidden' });
      await expect(control.setSecret(as(role), { id: 'token', sealed: SEALED })).rejects.toMatchObject({
        code: 'forbidden',
      });
      await expect(control.deleteSecret(as(role), { id: 'token' })).rejects.toMatchObject({ code: 'forbidden' });
      await expect(control.setSecretBinding(as(role), BINDING)).rejects.toMatchObject({ code: 'forbidden' });
      expect((await control.listSecretBindings(as(role), {})).bindings).toMatchObject([
        { name: 'api', secret: 'token' },
      ]);
    },
  );
});

describe('a binding', () => {
  it('of no secret there is, or for a project that is not there, is none', async () => {
    const { control } = world;
    await expect(control.setSecretBinding(as('admin'), BINDING)).rejects.toMatchObject({ code: 'not_found' });
    await control.setSecret(as('admin'), { id: 'token', sealed: SEALED });
    const elsewhere = { ...BINDING, projects: ['prj_0000000000000009'] };
    await expect(control.setSecretBinding(as('admin'), elsewhere)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('is named by sandboxes of the projects that it is granted to, and shown to no others', async () => {
    await bind({ projects: [] });
    await expect(create(['api'])).rejects.toMatchObject({ code: 'secret_not_granted' });
    await expect(create(['no-such'])).rejects.toMatchObject({ code: 'secret_not_granted' });
    expect((await world.control.listSecretBindings(as('developer'), {})).bindings).toEqual([]);
    await bind({ projects: 'all' });
    expect(boundOf(await create(['api']))).toMatchObject([{ binding: 'api', secret: { name: 'token' } }]);
    expect(boundOf(await create())).toEqual([]);
  });

  it('shows programs its placeholder, which is all that they see', async () => {
    await bind();
    const id = await create(['api']);
    const [bound] = boundOf(id) ?? [];
    expect(bound?.placeholder).toMatch(/^space-secret-[0-9a-z]{20}$/);
    expect(await world.exec(id, 'env API_KEY')).toBe(bound?.placeholder);
    expect((await world.get(id)).secrets).toEqual(['api']);
    expect(await world.exec(id, 'env API_KEY', { env: { API_KEY: 'own' } })).toBe('own');
  });

  it('that is changed, taken away or deleted is so in the gateway when that is answered', async () => {
    await bind();
    const [first, second] = [await create(['api']), await create(['api'])];
    await bind({ hosts: ['*.example.com'], methods: ['GET'] });
    expect(boundOf(first)).toMatchObject([{ hosts: ['*.example.com'], methods: ['GET'], secret: { version: 2 } }]);
    await bind({ projects: [] });
    expect([boundOf(first), boundOf(second)]).toEqual([[], []]);
    await bind();
    await world.control.deleteSecret(as('key_holder'), { id: 'token' });
    expect([boundOf(first), boundOf(second)]).toEqual([[], []]);
    expect(world.gateway.secrets.size).toBe(0);
    expect((await world.control.listSecretBindings(as('admin'), {})).bindings).toEqual([]);
  });

  it('is taken away from one sandbox, and given to it again with the placeholder that programs know', async () => {
    await bind();
    await world.control.setSecretBinding(as('admin'), { ...BINDING, id: 'second', env: null });
    const id = await create(['api']);
    const placeholder = boundOf(id)?.[0]?.placeholder;
    await world.control.updateSandbox(as('developer'), { id, secrets: ['second', 'api'] });
    expect(boundOf(id)).toMatchObject([{ binding: 'second' }, { binding: 'api', placeholder }]);
    await world.control.updateSandbox(as('developer'), { id, secrets: [] });
    expect(boundOf(id)).toEqual([]);
    await expect(world.control.updateSandbox(as('developer'), { id, secrets: ['x'] })).rejects.toMatchObject({
      code: 'secret_not_granted',
    });
  });
});

describe('what becomes of bindings', () => {
  it('over pause and resume: they are kept, and looked at again', async () => {
    await bind();
    const id = await create(['api']);
    const before = boundOf(id);
    await world.pause(id);
    world.gateway.restart();
    await world.resume(id);
    expect(boundOf(id)).toEqual(before);
    await world.pause(id);
    await bind({ projects: [] });
    await world.resume(id);
    expect(boundOf(id)).toEqual([]);
  });

  it('over a rewind: they are kept as they are today', async () => {
    await bind();
    const id = await create(['api']);
    const point = await world.snapshot(id);
    await bind({ hosts: ['b.example.com'] });
    await world.rewind(id, point.id);
    expect(boundOf(id)).toMatchObject([{ hosts: ['b.example.com'] }]);
    await world.control.updateSandbox(as('developer'), { id, secrets: [] });
    await world.rewind(id, point.id);
    expect(boundOf(id)).toEqual([]);
  });

  it('in a fork: there are none, unless they were asked for and are granted', async () => {
    await bind();
    const id = await create(['api']);
    const [plain] = await world.fork(id);
    if (plain === undefined || !('sandbox' in plain)) throw new Error('the fork was made');
    expect(boundOf(plain.sandbox.id)).toEqual([]);
    expect(plain.sandbox.secrets).toEqual([]);
    const fork = async () => {
      const [child] = await world.control.forkSandbox(as('developer'), { id, count: 1, inheritSecrets: true });
      if (child === undefined || !('sandbox' in child)) throw new Error('the fork was made');
      return boundOf(child.sandbox.id);
    };
    // Its programs hold the placeholder of the source.
    expect(await fork()).toEqual(boundOf(id));
    await bind({ projects: [] });
    expect(await fork()).toEqual([]);
  });

  it('in a sandbox made from a snapshot, or from an archive: there are none', async () => {
    await bind();
    const id = await create(['api']);
    await world.snapshot(id, 'base');
    const made = await world.control.createSandbox(as('developer'), { snapshot: 'base' });
    expect(boundOf(made.id)).toEqual([]);
    const from = { location: 'default', timeline: false };
    const { archive } = await world.control.exportSandbox(world.caller(), { id, ...from });
    const copy = { archive, location: 'default', as: 'copy', boot: false } as const;
    expect(boundOf((await world.control.importSandbox(world.caller(), copy)).id)).toEqual([]);
  });
});

describe('bindings of a sandbox that moves', () => {
  const PLACE = { location: 'default' } as const;
  const move = (from: World, id: string) =>
    from.control.moveSandbox(from.caller(), { ...PLACE, id, timeline: false }).then(({ archive }) => archive);
  const take = (to: World, archive: string) =>
    to.control.importSandbox(to.caller(), { ...PLACE, archive, as: 'move', boot: false });
  const bindIn = async (to: World, id: string, changes: Partial<Input<'setSecretBinding'>> = {}) => {
    await to.control.setSecret(to.caller(), { id: 'token', sealed: SEALED });
    await to.control.setSecretBinding(to.caller(), { ...BINDING, id, ...changes });
  };
  let there: World;
  beforeEach(() => {
    there = new World();
    there.node.archives = world.node.archives;
  });
  afterEach(() => there.control.close());

  it('are those that the organisation grants where it arrives, with the placeholders that its programs hold', async () => {
    for (const id of ['api', 'gone', 'elsewhere']) await bindIn(world, id, { env: `${id.toUpperCase()}_KEY` });
    const id = await create(['api', 'gone', 'elsewhere']);
    const before = boundOf(id);
    const archive = await move(world, id);
    expect(JSON.stringify(world.node.archives.orderOf(archive))).not.toContain(SEALED);
    await bindIn(there, 'api', { hosts: ['there.example.com'] });
    await bindIn(there, 'elsewhere', { projects: [] });
    const arrived = await take(there, archive);
    expect(arrived).toMatchObject({ secrets: ['api'], missingSecrets: ['gone', 'elsewhere'] });
    const { placeholder } = before?.find(({ binding }) => binding === 'api') ?? {};
    expect(there.gateway.rules.get(id)?.secrets).toMatchObject([
      { binding: 'api', placeholder, hosts: ['there.example.com'] },
    ]);
    // What is granted later gives it nothing by itself.
    await bindIn(there, 'gone');
    expect(there.gateway.rules.get(id)?.secrets).toHaveLength(1);
    const named = await there.control.updateSandbox(there.caller(), { id, secrets: ['api', 'gone'] });
    expect(named).toMatchObject({ secrets: ['api', 'gone'], missingSecrets: ['elsewhere'] });
    const placeholders = (bound: ReturnType<typeof boundOf>) =>
      bound?.map((one) => [one.binding, one.placeholder]).toSorted();
    const kept = before?.filter(({ binding }) => binding !== 'elsewhere');
    expect(placeholders(there.gateway.rules.get(id)?.secrets)).toEqual(placeholders(kept));
  });

  it('come back with it, also what was named where it was, and what was missing there', async () => {
    for (const id of ['api', 'home']) await bindIn(world, id);
    const id = await create(['api', 'home']);
    const first = boundOf(id);
    const archive = await move(world, id);
    for (const name of ['api', 'new']) await bindIn(there, name);
    await take(there, archive);
    await there.control.updateSandbox(there.caller(), { id, secrets: ['api', 'new'] });
    const back = await take(world, await move(there, id));
    expect(back).toMatchObject({ secrets: ['api', 'home'], missingSecrets: ['new'] });
    expect(boundOf(id)).toEqual(first);
  });

  it('are as they were when the move is undone, and none in a copy of its archive', async () => {
    await bind();
    const id = await create(['api']);
    const before = boundOf(id);
    const archive = await move(world, id);
    const copy = { ...PLACE, archive, as: 'copy', boot: false } as const;
    const made = await world.control.importSandbox(world.caller(), copy);
    expect(made).toMatchObject({ secrets: [], missingSecrets: [] });
    await world.control.undoMove(world.caller(), { id });
    await world.resume(id);
    expect(boundOf(id)).toEqual(before);
  });
});
