import { readFile } from 'node:fs/promises';
import { AppError, ERRORS, type IdKind, newId, parseId, type SandboxStatus } from '@space/core';
import fc from 'fast-check';
import { describe, expect, expectTypeOf, test } from 'vitest';
import {
  buildOpenApi,
  type Input,
  PROBLEM_CODES,
  ProtocolError,
  problemCodesOf,
  problemKindOf,
  type Request,
  ROUTE_NAMES,
  ROUTES,
  type Route,
  type RouteName,
  SIGNALS,
  schemas,
  signalNameOf,
  toProblem,
  type UseCases,
} from '../src/index.ts';

const chance = { bytes: (count: number) => Uint8Array.from({ length: count }, () => Math.random() * 256) };

/** Something that each body schema accepts. */
const BODIES: Readonly<Partial<Record<RouteName, object>>> = {
  createSandbox: { name: 'a', size: { vcpus: 1 }, env: { A: '1' }, metadata: { b: '2' } },
  exec: { command: 'true', stdin: true, pty: { cols: 80, rows: 24 }, timeoutMs: 1 },
  startProcess: { command: 'true' },
  resizeTerminal: { cols: 80, rows: 24 },
  signalProcess: { signal: 'SIGTERM', target: 'leader' },
  pauseSandbox: {},
  resumeSandbox: {},
  takeSnapshot: { name: 'a', note: 'b' },
  forkSandbox: { count: 2 },
  tagTemplate: { build: 'default', tags: ['v1'] },
  updateSandbox: { idle: { pauseAfterMs: null }, network: { preset: 'none' } },
  setWebhook: { url: 'https://hooks.example/' },
  setNetwork: { preset: 'internet', allow: [], ask: [], deny: [], readOnly: [] },
  setPrivateHosts: { privateHosts: ['git.corp.example'] },
  rewindSandbox: { to: 'a' },
  updateSnapshot: { pinned: true },
  updateProject: { snapshots: { everyMs: 'off' } },
  makeDirectory: { path: 'a', parents: true, mode: '700' },
  moveFile: { from: 'a', toBase64: '/w==', overwrite: false },
  setFileAttributes: { path: 'a', mode: '0000', owner: 'root', group: '5' },
  makeSymlink: { path: 'a', target: '..' },
  setXattr: { path: 'a', name: 'user.a', value: '' },
  createSchedule: { cron: '0 9 * * MON-FRI', timeZone: 'Europe/Berlin', exec: { command: 'true' } },
  updateSchedule: { cron: '@daily', enabled: false },
  exportSandbox: { location: 'default', timeline: true },
  importSandbox: { archive: `prj_0000000000000000/sbx_0000000000000000/${'0'.repeat(64)}`, name: 'a', boot: true },
  createShare: { port: 3000, name: 'a', expiresInMs: 60_000 },
  createProject: { name: 'a' },
  updateOrganisation: { name: 'a' },
  createKey: { name: 'a', roles: ['viewer'], project: 'b' },
  createOrganisation: { name: 'a' },
  setLimits: {},
  setSecret: { sealed: 'c2VhbGVk' },
  createVault: { name: 'a', kms: 'local', key: 'installation' },
  rotateVaultKey: { kms: 'aws', key: 'alias/b' },
  setSecretBinding: { secret: 'a', hosts: ['*.example.com'], place: { in: 'header', name: 'X-Key' } },
};
const QUERIES: Readonly<Partial<Record<RouteName, object>>> = {
  deleteArchive: { archive: `prj_0000000000000000/sbx_0000000000000000/${'0'.repeat(64)}` },
  readFile: { path: 'a' },
  writeFile: { path: 'a' },
  statFile: { path: 'a' },
  listFiles: { path: 'a' },
  headFile: { path: 'a' },
  removeFile: { path: 'a', recursive: 'true' },
  listXattrs: { path: 'a' },
  getXattr: { path: 'a', name: 'user.a' },
  removeXattr: { pathBase64: '_w', nameBase64: '_w==' },
  watchFiles: { path: 'a', recursive: 'false' },
};

describe('the route table', () => {
  test('has no two routes of one method and path', () => {
    const all = ROUTE_NAMES.map((name) => `${ROUTES[name].method} ${ROUTES[name].path.replaceAll(/\{\w+\}/g, '{}')}`);
    expect(new Set(all).size).toBe(all.length);
  });

  test('has a use-case for each route but those that the server answers itself', () => {
    type Own = 'getWelcome' | 'getHealth' | 'getReadiness' | 'getOpenApi' | 'headFile';
    expectTypeOf<Exclude<keyof UseCases, 'readiness'>>().toEqualTypeOf<Exclude<RouteName, Own>>();
  });

  test('gives use-cases inputs of plain fields', () => {
    expectTypeOf<Input<'getSandbox'>>().toEqualTypeOf<{ id: string }>();
    expectTypeOf<Input<'createSandbox'>>().toHaveProperty('name');
    expectTypeOf<{ id: string; count: number }>().toExtend<Input<'forkSandbox'>>();
    expectTypeOf<{ id: string }>().toExtend<Request<'forkSandbox'>>();
  });

  test('never gives two parts of one input the same field', () => {
    for (const name of ROUTE_NAMES) {
      const route: Route = ROUTES[name];
      const parts = [route.params, route.query, ...(route.body.kind === 'json' ? [route.body.schema] : [])];
      const fields = parts.flatMap((part) => Object.keys((part as unknown as { shape: object }).shape));
      expect(new Set(fields).size, name).toBe(fields.length);
    }
  });

  test('shows exactly the states that a user can see', () => {
    type Shown = (typeof schemas.sandboxStatus)['options'][number];
    expectTypeOf<Shown>().toEqualTypeOf<Exclude<SandboxStatus, 'deleted'>>();
  });
});

describe('strictness', () => {
  const unknownField = fc.string({ minLength: 1 }).filter((key) => key !== '__proto__');

  test.each(ROUTE_NAMES)('%s refuses unknown fields and query parameters', (name) => {
    const route: Route = ROUTES[name];
    const query = QUERIES[name] ?? {};
    const body = BODIES[name] ?? {};
    expect(route.query.safeParse(query).success).toBe(true);
    if (route.body.kind === 'json') expect(route.body.schema.safeParse(body).success).toBe(true);
    fc.assert(
      fc.property(unknownField, fc.jsonValue(), (field, value) => {
        const isKnown = (schema: unknown) => Object.hasOwn((schema as { shape: object }).shape, field);
        if (!isKnown(route.query)) expect(route.query.safeParse({ ...query, [field]: 'x' }).success).toBe(false);
        if (route.body.kind !== 'json' || isKnown(route.body.schema)) return;
        expect(route.body.schema.safeParse({ ...body, [field]: value }).success).toBe(false);
      }),
      { numRuns: 50 },
    );
  });

  test('every object of the document is closed, or a map, or a problem with its facts', () => {
    const open: string[] = [];
    const visit = (value: unknown, path: string) => {
      if (typeof value !== 'object' || value === null) return;
      if (
        'type' in value &&
        value.type === 'object' &&
        !('additionalProperties' in value && value.additionalProperties !== true)
      ) {
        open.push(path);
      }
      for (const [key, inner] of Object.entries(value)) visit(inner, `${path}/${key}`);
    };
    visit(buildOpenApi(), '');
    expect(
      open.filter((path) => !path.startsWith('/paths/~1openapi') && !path.startsWith('/paths//openapi.json')),
    ).toEqual([]);
  });

  test('null is never taken for absent', () => {
    for (const [name, body] of Object.entries(BODIES)) {
      const route: Route = ROUTES[name as RouteName];
      if (route.body.kind !== 'json') continue;
      for (const field of Object.keys(body)) {
        expect(route.body.schema.safeParse({ ...body, [field]: null }).success, `${name}.${field}`).toBe(false);
      }
    }
  });
});

describe('names and text', () => {
  test('no name is an id of any kind', () => {
    const kinds: IdKind[] = ['sandbox', 'snapshot', 'life', 'operation', 'process', 'apiKey'];
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z][a-z0-9-]{0,62}$/), (name) => {
        expect(schemas.name.safeParse(name).success).toBe(true);
        for (const kind of kinds) expect(parseId(kind, name)).toBeUndefined();
      }),
    );
    for (const kind of kinds) expect(schemas.name.safeParse(newId(kind, chance)).success).toBe(false);
  });

  test.each(['', '1a', 'A', 'a_b', 'a.b', '-a', 'a'.repeat(64), 'a\n', 'ä'])('%o is no name', (name) => {
    expect(schemas.name.safeParse(name).success).toBe(false);
  });

  test('a reference is an id of its own kind, or a name', () => {
    expect(schemas.sandboxReference.safeParse(newId('sandbox', chance)).success).toBe(true);
    expect(schemas.sandboxReference.safeParse(newId('snapshot', chance)).success).toBe(false);
    expect(schemas.snapshotReference.safeParse('last-good').success).toBe(true);
  });

  test('what would change on its way to the guest is refused', () => {
    for (const bad of ['a\0', '\ud800', 'x\udfff']) {
      expect(schemas.guestPath.safeParse(bad).success).toBe(false);
      expect(schemas.execBody.safeParse({ command: bad }).success).toBe(false);
      expect(schemas.execBody.safeParse({ argv: [bad] }).success).toBe(false);
      expect(schemas.env.safeParse({ A: bad }).success).toBe(false);
    }
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1, maxLength: 50 }), (path) => {
        const survives = !path.includes('\0') && new TextDecoder().decode(new TextEncoder().encode(path)) === path;
        // A decoder drops a leading byte order mark; as a file's name it is kept.
        if (!path.startsWith('\ufeff')) expect(schemas.guestPath.safeParse(path).success).toBe(survives);
      }),
    );
  });

  test('numbers in queries are decimal digits', () => {
    const limit = (text: string) => schemas.pageQuery.safeParse({ limit: text });
    for (const bad of ['', ' 1', '1 ', '+1', '-1', '0', '01', '1.0', '1e2', '0x10', '1001', 'NaN', '9'.repeat(20)]) {
      expect(limit(bad).success, bad).toBe(false);
    }
    expect(limit('1000').data).toEqual({ limit: 1000 });
    expect(schemas.pageQuery.parse({})).toEqual({ limit: 100 });
  });

  test('a path is text, or bytes in base64, and never both or neither', () => {
    const query = (given: object) => schemas.statFileQuery.safeParse(given);
    for (const base64 of ['YS//', 'YS__', '_w', '/w==']) {
      expect(query({ pathBase64: base64 }).data?.pathBase64).toEqual(Uint8Array.from(Buffer.from(base64, 'base64')));
    }
    for (const bad of ['', 'a', 'a===', 'a b', 'YQ=a', 'YQA', 'YQAA', '_w='.repeat(2), 'A'.repeat(6000)]) {
      expect(query({ pathBase64: bad }).success, bad).toBe(false);
    }
    expect(query({}).success).toBe(false);
    expect(query({ path: 'a', pathBase64: 'YQ' }).success).toBe(false);
    expect(schemas.moveFileBody.safeParse({ from: 'a', fromBase64: 'YQ', to: 'b' }).success).toBe(false);
  });

  test('a mode is octal', () => {
    const mode = (text: string) => schemas.writeFileQuery.safeParse({ path: 'a', mode: text });
    expect(mode('0755').data?.mode).toBe(0o755);
    for (const bad of ['', '75', '0o755', '888', '07555', '0x1']) expect(mode(bad).success, bad).toBe(false);
  });

  test('maps have a limit', () => {
    const entries = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`A${index}`, '']));
    expect(schemas.env.safeParse(entries(256)).success).toBe(true);
    expect(schemas.env.safeParse(entries(257)).success).toBe(false);
    expect(schemas.metadata.safeParse(entries(65)).success).toBe(false);
    expect(schemas.env.safeParse({ 'A=B': '' }).success).toBe(false);
  });

  test('signals have the names of Linux', () => {
    expect(signalNameOf(9)).toBe('SIGKILL');
    expect(signalNameOf(34)).toBe('SIG34');
    expect(new Set(Object.values(SIGNALS)).size).toBe(31);
  });
});

describe('problems', () => {
  test.each(PROBLEM_CODES)('%s is a problem that its schema allows', (code) => {
    const thrown = code in ERRORS ? new AppError(code as keyof typeof ERRORS, 'x') : new ProtocolError(code as never);
    const problem = toProblem(thrown, 'req_1');
    expect(schemas.problem.parse(problem)).toEqual(problem);
    expect(problem).toMatchObject({ code, status: problemKindOf(code).status, requestId: 'req_1' });
  });

  test('facts are shown and take the place of nothing', () => {
    const problem = toProblem(new AppError('bad_request', { detail: 'd', facts: { status: 200, limit: 3 } }), 'r');
    expect(problem).toMatchObject({ status: 400, limit: 3 });
  });

  test.each([
    new Error('secret'),
    'secret',
    null,
    new AppError('internal', { detail: 'secret', facts: { secret: 1 } }),
  ])('the unexpected (%s) says nothing of itself', (thrown) => {
    const problem = toProblem(thrown, 'r');
    expect(problem.code).toBe('internal');
    expect(JSON.stringify(problem)).not.toContain('secret');
  });

  test('every code of the catalogue can be answered by some route', () => {
    const declared = new Set(ROUTE_NAMES.flatMap((name) => problemCodesOf(ROUTES[name])));
    // A schedule's snapshot that is skipped is told of in the timeline and as an event; what may not leave a sandbox, to it.
    const told = [
      'over_budget',
      'egress_refused',
      'egress_failed',
      'approval_pending',
      'approval_denied',
      'secret_unavailable',
    ];
    expect(PROBLEM_CODES.filter((code) => !declared.has(code))).toEqual([...told, 'method_not_allowed']);
  });
});

test('openapi.json is what the contract says; `npm run openapi` writes it', async () => {
  const committed = await readFile(new URL('../openapi.json', import.meta.url), 'utf8');
  expect(JSON.parse(committed)).toEqual(JSON.parse(JSON.stringify(buildOpenApi())));
});

test('every reference in the document leads somewhere', () => {
  const document = JSON.stringify(buildOpenApi());
  const { schemas: components } = (buildOpenApi() as unknown as { components: { schemas: object } }).components;
  for (const [, name] of document.matchAll(/"#\/components\/schemas\/(\w+)"/g))
    expect(components).toHaveProperty(name ?? '');
  expect(document).not.toContain('$defs');
});

describe('a network policy', () => {
  const body = ROUTES.createSandbox.body.schema;
  const parsed = (network: unknown) => body.safeParse({ network });

  test('that leaves something out is the stricter one', () => {
    expect(parsed({ allow: [{ host: 'API.example.com.' }] }).data?.network).toEqual({
      preset: 'none',
      allow: [{ host: 'api.example.com', protocol: 'http', ports: [443], access: 'read', path: '/' }],
      ask: [],
      deny: [],
    });
  });

  test('keeps what its hosts speak, and the tools that it denies', () => {
    const spoken = { host: 'a.example', protocol: 'http', ports: [443], access: 'read', path: '/mcp' };
    const allow = [
      { ...spoken, speaks: 'mcp', tools: ['search', 'get_*'] },
      { ...spoken, speaks: 'json-rpc', reads: ['*'] },
    ];
    const deny = [{ host: '*.example', path: '/', tools: ['delete_*'] }, 'b.example'];
    expect(parsed({ allow, deny }).data?.network).toEqual({ preset: 'none', allow, ask: [], deny });
  });

  test.each([
    null,
    { preset: null },
    { preset: 'all' },
    { allow: [{ host: 'a.example:443' }] },
    { allow: [{ host: 'https://a.example' }] },
    { allow: [{ host: '*.*.example' }] },
    { allow: [{ host: 'a.example', ports: [] }] },
    { allow: [{ host: 'a.example', ports: [0] }] },
    { allow: [{ host: 'a.example', ports: null }] },
    { allow: [{ host: 'a.example', path: 'x' }] },
    { allow: [{ host: 'a.example', path: '/x/../y' }] },
    { allow: [{ host: 'a.example', path: '/x%2fy' }] },
    { allow: [{ host: 'a.example', access: 'admin' }] },
    { allow: [{ host: 'a.example', protocol: 'tcp' }] },
    { allow: [{ host: 'a.example', protocol: 'tcp', ports: [22], access: 'read' }] },
    { allow: [{ host: 'a.example', protocol: 'tls', ports: [443], path: '/x' }] },
    { allow: [{ host: 'a.example', methods: ['GET'] }] },
    { ask: [{ host: 'a.example', protocol: 'tcp' }] },
    { ask: [{ host: 'a.example', access: 'read' }] },
    { ask: null },
    { allow: [{ host: 'a.example', speaks: 'soap' }] },
    { allow: [{ host: 'a.example', tools: ['x'] }] },
    { allow: [{ host: 'a.example', speaks: 'graphql', tools: ['x'] }] },
    { allow: [{ host: 'a.example', speaks: 'mcp', tools: ['*x'] }] },
    { allow: [{ host: 'a.example', speaks: 'mcp', tools: [''] }] },
    { allow: [{ host: 'a.example', speaks: 'mcp', reads: ['x'] }] },
    { allow: [{ host: 'a.example', speaks: null }] },
    { allow: [{ host: 'a.example', protocol: 'tcp', ports: [22], speaks: 'git' }] },
    { deny: [{ host: 'a.example' }] },
    { deny: [{ host: 'a.example', tools: [] }] },
    { deny: ['a.example/x'] },
    { readOnly: ['a.example'] },
  ])('is refused when it is %j', (network) => {
    expect(parsed(network).success).toBe(false);
  });

  test('constraints leave nothing out', () => {
    const whole = { preset: 'internet', allow: [], ask: [], deny: [], readOnly: [] };
    for (const field of Object.keys(whole)) {
      const { [field as keyof typeof whole]: _, ...rest } = whole;
      expect(ROUTES.setNetwork.body.schema.safeParse(rest).success, field).toBe(false);
    }
    expect(ROUTES.setPrivateHosts.body.schema.safeParse({ privateHosts: ['*'] }).success).toBe(false);
  });
});

describe('a secret binding', () => {
  const parse = (changes: object) =>
    ROUTES.setSecretBinding.body.schema.safeParse({
      secret: 'a',
      hosts: ['a.example'],
      place: { in: 'bearer' },
      ...changes,
    });

  test('means the stricter thing where nothing is said: port 443, and no project', () => {
    expect(parse({}).data).toMatchObject({ ports: [443], projects: [], env: null, paths: ['/'] });
  });

  test.each([
    { hosts: ['*'] },
    { hosts: [] },
    { hosts: ['a.example/path'] },
    { place: { in: 'header', name: 'Host' } },
    { place: { in: 'header', name: 'Proxy-Authorization' } },
    { place: { in: 'header', name: 'Transfer-Encoding' } },
    { place: { in: 'header', name: 'X-Key', prefix: 'a\r\nb' } },
    { place: { in: 'header', name: 'X Key' } },
    { place: { in: 'basic', username: 'a:b' } },
    { place: { in: 'body' } },
    { methods: ['get'] },
    { paths: ['/a/../b'] },
    { env: 'A B' },
  ])('is refused with %j', (changes) => {
    expect(parse(changes).success).toBe(false);
  });

  test('has a value that is sealed or a source, and never both', () => {
    const { schema } = ROUTES.setSecret.body;
    const source = { kind: 'store', store: 'vault', path: 'a' };
    expect(schema.safeParse({ source }).success).toBe(true);
    expect(schema.safeParse({}).success).toBe(false);
    expect(schema.safeParse({ source, sealed: 'c2VhbGVk' }).success).toBe(false);
    expect(schema.safeParse({ value: 'in clear' }).success).toBe(false);
  });
});
