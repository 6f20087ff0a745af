/**
 * The sweep: made from the route table, so that a route that is added is swept, or fails here until it says how. For every
 * route and every id in it, what another tenant owns is told apart in no way from what never existed; and for every role
 * and every route, the answer is the one of the table.
 */
import { ROUTE_NAMES, ROUTES, type Route, type RouteName } from '@space/contract';
import {
  ACTIONS,
  APPROVAL_LIMITS,
  DEFAULT_ORGANISATION,
  type IdKind,
  newId,
  type OrganisationId,
  ROLE_ACTIONS,
  ROLES,
  type Role,
  type SandboxId,
} from '@space/core';
import { seededChance } from '@space/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { World } from './world.ts';

const chance = seededChance(Date.now());
/** They make what they name, in the organisation of the caller. */
const SETS: readonly RouteName[] = [
  'setSecret',
  'setSecretBinding',
  'requestTemplateBuild',
  'getTemplateFile',
  'putTemplateFile',
];
const GATED = ROUTE_NAMES.filter((name) => !('open' in ROUTES[name]));
/** Organisations are the installation's; who does not run it learns nothing of them by any id (see the roles below). */
const WITH_IDS = GATED.filter((name) => {
  const { path, action }: Route = ROUTES[name];
  return !SETS.includes(name) && path.includes('{') && ACTIONS[action ?? 'platform.read'] !== 'installation';
});

/** What a valid request of the route says beside its path. Ids of others go in where `OTHERS` says. */
const QUERIES: Readonly<Partial<Record<RouteName, string>>> = {
  deleteArchive: `?archive=prj_0000000000000000/sbx_0000000000000000/${'0'.repeat(64)}`,
  readFile: '?path=a',
  writeFile: '?path=a',
  statFile: '?path=a',
  listFiles: '?path=a',
  headFile: '?path=a',
  removeFile: '?path=a',
  listXattrs: '?path=a',
  getXattr: '?path=a&name=user.a',
  removeXattr: '?path=a&name=user.a',
  watchFiles: '?path=a',
  listEvents: '?follow=false',
};
const BODIES: Readonly<Partial<Record<RouteName, object>>> = {
  updateSandbox: { idle: { pauseAfterMs: null } },
  exec: { command: 'read' },
  startProcess: { command: 'read' },
  resizeTerminal: { cols: 80, rows: 24 },
  makeDirectory: { path: 'a' },
  moveFile: { from: 'a', to: 'b' },
  setFileAttributes: { path: 'a', mode: '600' },
  makeSymlink: { path: 'a', target: 'b' },
  setXattr: { path: 'a', name: 'user.a', value: '' },
  signalProcess: { signal: 'SIGTERM' },
  takeSnapshot: { name: 'x' },
  rewindSandbox: { to: 'mine' },
  createSchedule: { cron: '@daily' },
  updateSchedule: { enabled: false },
  updateSnapshot: { pinned: true },
  updateProject: { snapshots: { everyMs: 'off' } },
  importSandbox: { archive: `prj_0000000000000000/sbx_0000000000000000/${'0'.repeat(64)}` },
  createShare: { port: 3000 },
  createProject: { name: 'x' },
  updateOrganisation: { name: 'x' },
  createKey: { roles: ['admin'] },
  createOrganisation: { name: 'x' },
  setNetwork: { preset: 'internet', allow: [], ask: [], deny: [], readOnly: [] },
  setPrivateHosts: { privateHosts: [] },
  setWebhook: { url: 'https://hooks.example/' },
  setSecret: { sealed: 'c2VhbGVk' },
  startTemplateBuild: { steps: [] },
  tagTemplate: { build: 'default', tags: ['x'] },
  createVault: { name: 'x', kms: 'local', key: 'installation' },
  rotateVaultKey: { kms: 'local', key: 'other' },
  setSecretBinding: { secret: 'x', hosts: ['a.example'], place: { in: 'bearer' } },
};

/** Secrets and bindings have names only. */
type Kind = IdKind | 'secret' | 'binding' | 'vault';

function neverOf(kind: Kind): readonly string[] {
  return kind === 'secret' || kind === 'binding' || kind === 'vault'
    ? ['never-was']
    : [newId(kind, chance), 'never-was'];
}

/** The kind of thing that `{id}` of a path names. */
function kindOf(name: RouteName): Kind {
  const { path } = ROUTES[name];
  if (path.startsWith('/v1/sandboxes/{id}')) return 'sandbox';
  if (path.startsWith('/v1/snapshots/{id}')) return 'snapshot';
  if (path.startsWith('/v1/projects/{id}')) return 'project';
  if (path.startsWith('/v1/keys/{id}')) return 'apiKey';
  if (path.startsWith('/v1/organisations/{id}')) return 'organisation';
  if (path.startsWith('/v1/operations/{id}')) return 'operation';
  if (path.startsWith('/v1/approvals/{id}')) return 'approval';
  if (path.startsWith('/v1/secrets/{id}')) return 'secret';
  if (path.startsWith('/v1/secret-bindings/{id}')) return 'binding';
  if (path.startsWith('/v1/vaults/{id}')) return 'vault';
  if (path.startsWith('/v1/templates/{id}')) return 'template';
  if (path.startsWith('/v1/template-builds/{id}')) return 'build';
  throw new Error(`say here what the id in ${path} names`);
}

interface Tenant {
  readonly key: string;
  /** By kind: the id, and, where it has one, the name. */
  readonly owns: Readonly<Partial<Record<Kind, readonly string[]>>>;
}

describe('tenants', () => {
  let world: World;
  let a: Tenant;
  let b: Tenant;

  beforeAll(async () => {
    world = await World.start();
    a = await tenant('acme', 'theirs');
    b = await tenant('bolt', 'mine');
  });
  afterAll(() => world[Symbol.asyncDispose]());

  /** Beside the key of each admin. */
  const reviewers = new Map<string, string>();
  const keyHolders = new Map<string, string>();

  async function tenant(organisation: string, name: string): Promise<Tenant> {
    const made = await world.ask(world.operatorKey, 'POST', '/v1/organisations', { name: organisation });
    const admin = made.key.secretKey;
    const { secretKey: key } = await world.ask(admin, 'POST', '/v1/keys', { roles: ['admin'] });
    // What no admin may, a reviewer does, or a key holder.
    const { secretKey: reviewer } = await world.ask(admin, 'POST', '/v1/keys', { roles: ['reviewer'] });
    reviewers.set(key, reviewer);
    const { secretKey: keyHolder } = await world.ask(admin, 'POST', '/v1/keys', { roles: ['key_holder'] });
    keyHolders.set(key, keyHolder);
    const vault = await world.ask(keyHolder, 'POST', '/v1/vaults', { ...BODIES.createVault, name: `${name}-vault` });
    const project = await world.ask(key, 'POST', '/v1/projects', { name });
    const developer = await world.ask(key, 'POST', '/v1/keys', { roles: ['developer'] });
    const sandbox = await world.ask(key, 'POST', '/v1/sandboxes', { name });
    const snapshot = await world.ask(key, 'POST', `/v1/sandboxes/${sandbox.id}/snapshots`, { name });
    const { operations } = await world.ask(key, 'GET', '/v1/operations');
    const approval = await pendingApproval(made.id, sandbox.id);
    const own = `${name}-secret`;
    await world.ask(key, 'PUT', `/v1/secrets/${own}`, BODIES.setSecret);
    await world.ask(key, 'PUT', `/v1/secret-bindings/${own}`, {
      ...BODIES.setSecretBinding,
      secret: own,
      projects: 'all',
    });
    const build = await world.ask(key, 'POST', `/v1/templates/${name}-template/builds`, {});
    return {
      key,
      owns: {
        template: [build.templateId, build.template],
        build: [build.id],
        sandbox: [sandbox.id, name],
        snapshot: [snapshot.id, name],
        project: [project.id, name],
        apiKey: [developer.id],
        operation: [operations[0].id],
        approval: [approval.id],
        secret: [own],
        binding: [own],
        vault: [vault.name],
      },
    };
  }

  /** As if a program had asked for something that is held. */
  async function pendingApproval(organisationId: OrganisationId, sandboxId: SandboxId) {
    const sandbox = await world.records.findSandbox(sandboxId);
    if (sandbox === null) throw new Error('it was made');
    const body = { sizeBytes: 0, sha256: '', text: '', isWhole: true };
    const at = { method: 'GET', scheme: 'https', host: 'api.example', port: 443, url: '/' } as const;
    const fresh = {
      id: newId('approval', chance),
      organisationId,
      projectId: sandbox.projectId,
      sandboxId,
      digest: 'digest',
      rule: 'ask 1: api.example',
      request: { ...at, headers: [], moreHeaders: 0, body },
      requestedAt: new Date(),
      expiresAt: new Date(Date.now() + 600_000),
      askedBy: 'fake/1',
    };
    return world.records.approvals.ask(fresh, APPROVAL_LIMITS);
  }

  function request(name: RouteName, of: string, id: string, body: object | undefined = BODIES[name]) {
    const route: Route = ROUTES[name];
    const others = { 'approval.decide': reviewers, 'vault.key': keyHolders } as const;
    const key = others[route.action as keyof typeof others]?.get(of) ?? of;
    const path = route.path
      .replace('{id}', id)
      .replace('{processId}', 'prc_0123456789abcdef')
      .replace('{scheduleId}', 'sch_0123456789abcdef')
      .replace('{shareId}', 'shr_0123456789abcdef')
      .replace('{port}', '3000')
      .replace('{tag}', 'default')
      .replace('{hash}', '0'.repeat(64));
    if (route.response.kind === 'upgrade') return world.upgrade(key, path, route.response.protocol);
    const json = route.body.kind === 'json' ? (body ?? {}) : undefined;
    return world.call(key, route.method, `${path}${QUERIES[name] ?? ''}`, json);
  }

  /** The answer without what is of this request alone, and with its id or name replaced. */
  const bare = ({ status, text }: { status: number; text: string }, reference: string) => ({
    status,
    body: text.replaceAll(reference, 'REFERENCE').replaceAll(/req_[0-9a-f]+/g, 'REQUEST'),
  });

  /** All that A owns, as A sees it. */
  async function seenByOwner() {
    const { sandbox = [], snapshot = [] } = a.owns;
    const paths = [
      `/v1/sandboxes/${sandbox[0]}`,
      `/v1/sandboxes/${sandbox[0]}/snapshots`,
      `/v1/snapshots/${snapshot[0]}`,
    ];
    const lists = [
      '/v1/approvals',
      '/v1/operations',
      '/v1/sandboxes',
      '/v1/snapshots',
      '/v1/projects',
      '/v1/keys',
      '/v1/secrets',
      '/v1/secret-bindings',
      '/v1/vaults',
    ];
    return Promise.all([...paths, ...lists].map((path) => world.ask(a.key, 'GET', path)));
  }

  it.each(WITH_IDS)('%s answers for what is another’s as for what never was, and does nothing', async (name) => {
    const before = await seenByOwner();
    const steps = world.node.faults.steps.length;
    const never = neverOf(kindOf(name));
    for (const [index, theirs] of (a.owns[kindOf(name)] ?? []).entries()) {
      const unknown = never[index] ?? '';
      const answer = bare(await request(name, b.key, theirs), theirs);
      expect(answer.status).toBe(404);
      expect(answer).toEqual(bare(await request(name, b.key, unknown), unknown));
    }
    expect(world.node.faults.steps.length).toBe(steps);
    expect(await seenByOwner()).toEqual(before);
  });

  it.each([
    ['createSandbox', 'snapshot', (theirs: string) => ({ snapshot: theirs }), ''],
    ['forkSandbox', 'snapshot', (theirs: string) => ({ from: theirs }), 'mine'],
    ['rewindSandbox', 'snapshot', (theirs: string) => ({ to: theirs }), 'mine'],
    ['createKey', 'project', (theirs: string) => ({ roles: ['admin'], project: theirs }), ''],
  ] as const)('%s takes no %s of another', async (name, kind, bodyOf, id) => {
    const before = await seenByOwner();
    for (const [index, theirs] of (a.owns[kind] ?? []).entries()) {
      const unknown = [newId(kind, chance), 'never-was'][index] ?? '';
      const answer = bare(await request(name, b.key, id, bodyOf(theirs)), theirs);
      expect(answer.status).toBe(404);
      expect(answer).toEqual(bare(await request(name, b.key, id, bodyOf(unknown)), unknown));
    }
    expect(await seenByOwner()).toEqual(before);
  });

  it('sets secrets in its own organisation only, whatever their name, and names none of another', async () => {
    const before = await seenByOwner();
    const [theirs = ''] = a.owns.secret ?? [];
    expect(
      (await request('setSecretBinding', b.key, 'new', { ...BODIES.setSecretBinding, secret: theirs })).status,
    ).toBe(404);
    expect((await request('createSandbox', b.key, '', { secrets: [theirs] })).status).toBe(403);
    expect((await request('setSecret', b.key, theirs)).status).toBe(200);
    expect(await seenByOwner()).toEqual(before);
    await world.ask(b.key, 'DELETE', `/v1/secrets/${theirs}`);
    expect(await seenByOwner()).toEqual(before);
  });

  it('finds no project of another by header', async () => {
    for (const [index, theirs] of (a.owns.project ?? []).entries()) {
      const unknown = [newId('project', chance), 'never-was'][index] ?? '';
      const ask = (project: string) =>
        world.call(b.key, 'GET', '/v1/sandboxes', undefined, { 'x-space-project': project });
      const answer = bare(await ask(theirs), theirs);
      expect(answer.status).toBe(404);
      expect(answer).toEqual(bare(await ask(unknown), unknown));
    }
  });

  it('lists nothing of another', async () => {
    // One that never named what is A's: the audit holds what a caller has asked for.
    const { key } = await tenant('calm', 'other');
    for (const name of GATED.filter((one) => ROUTES[one].method === 'GET' && !ROUTES[one].path.includes('{'))) {
      const { text } = await request(name, key, '');
      for (const id of Object.values(a.owns).flat()) expect(text, `${name} shows ${id}`).not.toContain(id);
    }
  });

  it('says the same of what was deleted', async () => {
    const gone = await world.ask(b.key, 'POST', '/v1/sandboxes', { name: 'gone' });
    await world.ask(b.key, 'DELETE', `/v1/sandboxes/${gone.id}`);
    const never = newId('sandbox', chance);
    for (const name of WITH_IDS.filter((one) => kindOf(one) === 'sandbox')) {
      expect(bare(await request(name, b.key, gone.id), gone.id)).toEqual(
        bare(await request(name, b.key, never), never),
      );
    }
  });

  it('lets names be used again by another', async () => {
    const { id } = await world.ask(b.key, 'POST', '/v1/sandboxes', { name: 'theirs' });
    expect(id).not.toBe(a.owns.sandbox?.[0]);
    await world.ask(b.key, 'DELETE', '/v1/sandboxes/theirs');
    expect((await world.ask(a.key, 'GET', '/v1/sandboxes/theirs')).id).toBe(a.owns.sandbox?.[0]);
  });

  it('shows who runs the installation nothing of what is in it', async () => {
    const { secretKey } = await world.ask(world.operatorKey, 'POST', '/v1/keys', { roles: ['admin'] });
    const { secretKey: reviewer } = await world.ask(world.operatorKey, 'POST', '/v1/keys', { roles: ['reviewer'] });
    reviewers.set(secretKey, reviewer);
    const { secretKey: keyHolder } = await world.ask(world.operatorKey, 'POST', '/v1/keys', { roles: ['key_holder'] });
    keyHolders.set(secretKey, keyHolder);
    for (const name of WITH_IDS) {
      for (const theirs of a.owns[kindOf(name)] ?? []) {
        expect((await request(name, secretKey, theirs)).status, name).toBe(404);
      }
    }
  });
});

describe('roles', () => {
  let world: World;
  const keys = new Map<string, string>();

  beforeAll(async () => {
    world = await World.start();
    const made = await world.ask(world.operatorKey, 'POST', '/v1/organisations', { name: 'acme' });
    for (const [where, admin] of [
      ['operator', world.operatorKey],
      ['tenant', made.key.secretKey],
    ] as const) {
      for (const role of ROLES) {
        const { secretKey } = await world.ask(admin, 'POST', '/v1/keys', { roles: [role] });
        keys.set(`${where} ${role}`, secretKey);
        const { secretKey: limited } = await world.ask(admin, 'POST', '/v1/keys', {
          roles: [role],
          project: 'default',
        });
        keys.set(`${where} ${role} of one project`, limited);
      }
    }
  });
  afterAll(() => world[Symbol.asyncDispose]());

  /** The table, said once more in other words: what is allowed is what is not 403. */
  function allowed(name: RouteName, role: Role, operator: boolean, limited: boolean): boolean {
    const { action }: Route = ROUTES[name];
    if (action === undefined || !ROLE_ACTIONS[role].includes(action)) return false;
    if (ACTIONS[action] === 'installation') return operator && !limited;
    return ACTIONS[action] === 'project' || !limited || action === 'project.read';
  }

  const CASES = GATED.flatMap((name) => ROLES.map((role) => [name, role] as const));

  it.each(CASES)('%s by %s is as the table says', async (name, role) => {
    const { method, path, body, response }: Route = ROUTES[name];
    const at = path
      .replace('{id}', someIdFor(name))
      .replace('{processId}', 'prc_0123456789abcdef')
      .replace('{scheduleId}', 'sch_0123456789abcdef')
      .replace('{shareId}', 'shr_0123456789abcdef')
      .replace('{port}', '3000')
      .replace('{tag}', 'never-was')
      .replace('{hash}', '0'.repeat(64));
    for (const where of ['operator', 'tenant']) {
      for (const limited of [false, true]) {
        const key = keys.get(`${where} ${role}${limited ? ' of one project' : ''}`) ?? '';
        const json = body.kind === 'json' ? (VALID[name] ?? BODIES[name] ?? {}) : undefined;
        const call = () =>
          response.kind === 'upgrade'
            ? world.upgrade(key, at, response.protocol)
            : world.call(key, method, `${at}${QUERIES[name] ?? ''}`, json);
        const { status, text } = await call();
        const forbidden = status === 403;
        expect(forbidden, `${where} ${limited}: ${status} ${text}`).toBe(
          !allowed(name, role, where === 'operator', limited),
        );
        expect(status).not.toBe(401);
        expect(status).toBeLessThan(500);
      }
    }
  });

  /** Bodies that change nothing when they are allowed: what they name does not exist, or is taken. */
  const VALID: Readonly<Partial<Record<RouteName, object>>> = {
    createSandbox: { snapshot: 'never-was' },
    createProject: { name: 'default' },
    createKey: { roles: ['viewer'], project: 'never-was' },
    createOrganisation: { name: 'acme' },
  };

  const someIdFor = (name: RouteName) => (ROUTES[name].path.includes('{id}') ? (neverOf(kindOf(name))[0] ?? '') : '');
});

describe('keys', () => {
  it.each(['admin', 'developer'])(
    'that would decide on its own requests is not made, and decides on none: %s',
    async (role) => {
      await using world = await World.start();
      const roles = ['reviewer', role];
      const { status, text } = await world.call(world.operatorKey, 'POST', '/v1/keys', { roles });
      expect([status, JSON.parse(text).code]).toEqual([400, 'bad_request']);
      // One of an earlier version, which made such keys.
      const { secretKey } = await world.ask(world.operatorKey, 'POST', '/v1/keys', { roles: [role] });
      const made = world.records.tenants.listApiKeys({ organisationId: DEFAULT_ORGANISATION, limit: 10 });
      const [key] = (await made).items;
      Object.assign(key ?? {}, { roles });
      for (const decision of ['approve', 'deny']) {
        const told = await world.call(secretKey, 'POST', `/v1/approvals/apr_0000000000000000/${decision}`, {});
        expect(told).toMatchObject({ status: 403, text: expect.stringContaining('decides on none of their requests') });
      }
      const { secretKey: reviewer } = await world.ask(world.operatorKey, 'POST', '/v1/keys', { roles: ['reviewer'] });
      expect((await world.call(reviewer, 'POST', '/v1/approvals/apr_0000000000000000/deny', {})).status).toBe(404);
    },
  );

  it.each([
    ['nothing', ''],
    ['another scheme', 'Basic c3BhY2U6c3BhY2U='],
    ['a key of another form', 'Bearer sk-0123456789'],
    ['a key that is too long', `Bearer space_${'A'.repeat(600)}`],
    ['a key with a space', 'Bearer space_a b'],
    ['letters beyond ASCII', 'Bearer space_\u00e9'],
    ['a quote', "Bearer space_' or 1=1 --"],
    ['two keys', 'Bearer space_a, Bearer space_b'],
  ])('that are %s are refused', async (_, authorization) => {
    await using world = await World.start();
    const response = await fetch(`${world.url}/v1/sandboxes`, {
      headers: authorization === '' ? {} : { authorization },
    });
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ code: 'unauthenticated' });
  });

  it.each(['', ' ', 'A', '../x', 'a'.repeat(64), 'a,b', "a'", '%00'])(
    'a project header of %o is refused',
    async (project) => {
      await using world = await World.start();
      const { status } = await world.call(world.operatorKey, 'GET', '/v1/sandboxes', undefined, {
        'x-space-project': project,
      });
      expect(status).toBe(400);
    },
  );

  it.each([
    [{}],
    [{ roles: [] }],
    [{ roles: ['owner'] }],
    [{ roles: ['admin', 'admin'] }],
    [{ roles: 'admin' }],
    [{ roles: ['admin'], name: 'A\u0000' }],
    [{ roles: ['admin'], project: 'sbx_0123456789abcdef' }],
    [{ roles: ['admin'], operator: true }],
    [{ roles: ['admin'], organisation: 'org_0000000000000000' }],
  ])('a request for one like %o is refused', async (body) => {
    await using world = await World.start();
    expect((await world.call(world.operatorKey, 'POST', '/v1/keys', body)).status).toBe(400);
  });

  it('that are guessed in a flood are refused unseen, and a key that worked still works', async () => {
    await using world = await World.start();
    const ok = () => world.call(world.operatorKey, 'GET', '/v1/projects');
    expect((await ok()).status).toBe(200);
    const guess = () => world.call(`space_${'A'.repeat(43)}`, 'GET', '/v1/projects');
    const statuses: number[] = [];
    for (let i = 0; i < 40; i++) statuses.push((await guess()).status);
    expect(statuses.slice(0, 30).every((status) => status === 401)).toBe(true);
    expect(statuses.slice(30).every((status) => status === 429)).toBe(true);
    expect((await ok()).status).toBe(200);
  });
});

describe('idempotency keys', () => {
  it.each(['', ' ', 'a b', 'a\tb', 'x'.repeat(256), '\u00e9'])('like %o are refused', async (key) => {
    await using world = await World.start();
    const call = world.call(world.operatorKey, 'POST', '/v1/sandboxes', {}, { 'idempotency-key': key });
    expect((await call).status).toBe(400);
    expect((await world.ask(world.operatorKey, 'GET', '/v1/sandboxes')).sandboxes).toEqual([]);
  });

  it('answer a call that is sent again, on every kind of call', async () => {
    await using world = await World.start();
    const twice = async (method: string, path: string, body?: unknown) => {
      const send = () =>
        world.call(world.operatorKey, method, path, body, {
          'idempotency-key': `${method} ${path}`.replaceAll(' ', ''),
        });
      const [first, again] = [await send(), await send()];
      expect(first.status, first.text).toBeLessThan(300);
      expect(again).toMatchObject({
        status: first.status,
        text: first.text.replace(/"secretKey":"[^"]+"/, '"secretKey":null'),
      });
      return first.text === '' ? null : JSON.parse(first.text);
    };
    await twice('POST', '/v1/organisations', { name: 'acme' });
    await twice('POST', '/v1/projects', { name: 'two' });
    const key = await twice('POST', '/v1/keys', { roles: ['viewer'] });
    await twice('DELETE', `/v1/keys/${key.id}`);
    await twice('POST', '/v1/sandboxes', { name: 'one' });
    const point = await twice('POST', '/v1/sandboxes/one/snapshots', { name: 'point' });
    await twice('POST', '/v1/sandboxes/one/fork', { count: 2 });
    await twice('POST', '/v1/sandboxes/one/rewind', { to: 'point' });
    await twice('POST', '/v1/sandboxes/one/pause', {});
    await twice('POST', '/v1/sandboxes/one/resume', {});
    await twice('DELETE', `/v1/snapshots/${point.id}`);
    await twice('DELETE', '/v1/sandboxes/one');
    expect((await world.ask(world.operatorKey, 'GET', '/v1/sandboxes')).sandboxes).toHaveLength(2);
  });
});
