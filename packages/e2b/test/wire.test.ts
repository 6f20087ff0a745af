/** What the SDKs' own calls do not show: defaults, refusals, the form of errors, and lists, byte for byte. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { REFUSED_CALLS, REFUSED_FIELDS } from './refusals.ts';
import { SDKS, World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await World.start();
});
afterAll(() => world[Symbol.asyncDispose]());

async function make(body: object = {}, path = '/v2/sandboxes'): Promise<string> {
  const { status, body: made } = await world.call('POST', path, { templateID: 'base', timeout: 60, ...body });
  expect({ status, made }).toMatchObject({ status: 201, made: { sandboxID: expect.any(String) } });
  return made.sandboxID;
}

const seconds = (until: string) => Math.round((Date.parse(until) - Date.now()) / 1000);

describe('a create', () => {
  it.each([
    ['/v2/sandboxes', 300],
    ['/sandboxes', 15],
  ])('by %s lives for %i s, unless it says otherwise', async (path, lives) => {
    const { status, body } = await world.call('POST', path, { templateID: 'base' });
    expect(status).toBe(201);
    expect(body).toMatchObject({ clientID: expect.any(String), envdAccessToken: expect.stringMatching(/^spacebox_/) });
    const { body: shown } = await world.call('GET', `/sandboxes/${body.sandboxID}`);
    expect(Math.abs(seconds(shown.endAt) - lives)).toBeLessThan(5);
    expect(shown.lifecycle).toEqual({ autoResume: false, onTimeout: 'kill' });
    expect(shown).toMatchObject({ allowInternetAccess: true, state: 'running', network: { allowPublicTraffic: true } });
  });

  it.each<readonly [field: object, message: string]>([
    [{ timeout: 0 }, 'Timeout must be greater than 0'],
    [{ timeout: 10_000_000 }, 'Timeout cannot be greater than 576 hours'],
    [{ timeout: '5' }, 'body field timeout'],
    [{ autoPauseMemory: false }, 'autoPauseMemory: false needs autoPause'],
    [{ autoPause: true, autoPauseMemory: false, autoResume: { enabled: true } }, 'goes with no autoResume'],
    [{ network: { allowOut: ['a.example'] } }, 'you must include'],
    [{ network: { denyOut: ['a.example'] } }, 'invalid denied CIDR a.example'],
    [{ network: { denyOut: ['10.0.0.0/33'] } }, 'invalid denied CIDR 10.0.0.0/33'],
    [{ envVars: { 'not a name': '1' } }, 'env'],
    [{ what: 1 }, 'what'],
    ...REFUSED_FIELDS,
  ])('with %j is refused, and says so in the body', async (field, message) => {
    const { status, body } = await world.call('POST', '/v2/sandboxes', { templateID: 'base', ...field });
    expect({ status, body }).toMatchObject({
      status: 400,
      body: { code: 400, message: expect.stringContaining(message) },
    });
  });

  it('can be paused at its time with its files alone', async () => {
    const id = await make({ autoPause: true, autoPauseMemory: false });
    const shown = async () => (await world.call('GET', `/sandboxes/${id}`)).body;
    expect((await shown()).lifecycle).toEqual({ autoResume: false, onTimeout: 'pause' });
    expect((await world.call('POST', `/sandboxes/${id}/timeout`, { timeout: 0 })).status).toBe(204);
    await expect.poll(async () => (await shown()).state, { timeout: 10_000 }).toBe('paused');
    const { apiKey } = world.platform.connection;
    const timeline = await fetch(`${world.url}/v1/sandboxes/${id.replace('sbx', 'sbx_')}/snapshots`, {
      headers: { authorization: `Bearer ${apiKey}` },
    });
    expect(await timeline.json()).toMatchObject({ snapshots: [{ kind: 'disk', cause: 'pause' }] });
    expect((await world.call('POST', `/v2/sandboxes/${id}/connect`, {})).status).toBe(201);
    expect((await shown()).lifecycle.onTimeout).toBe('pause');
  });

  it('from what is not there is a 404', async () => {
    for (const templateID of ['nothing', 'base:v2', 'other/base', 'snp0000000000000000', 'A b']) {
      const { status, body } = await world.call('POST', '/v2/sandboxes', { templateID });
      expect({ status, body }).toEqual({
        status: 404,
        body: { code: 404, message: `template '${templateID}' not found` },
      });
    }
  });

  it('keeps what a sandbox may reach, as it was asked', async () => {
    const network = { denyOut: ['0.0.0.0/0'], allowOut: ['api.example', '*.example.org', '1.1.1.1'] };
    const id = await make({ network: { ...network, allowPublicTraffic: false } });
    const { body } = await world.call('GET', `/sandboxes/${id}`);
    expect(body).toMatchObject({ allowInternetAccess: false, network: { ...network, allowPublicTraffic: false } });
    expect((await world.call('PUT', `/sandboxes/${id}/network`, { allow_internet_access: false })).status).toBe(204);
    const shut = { allowInternetAccess: false, network: { allowOut: [], denyOut: ['0.0.0.0/0'] } };
    expect((await world.call('GET', `/sandboxes/${id}`)).body).toMatchObject(shut);
    expect(
      (await world.call('PUT', `/sandboxes/${id}/network`, { denyOut: ['8.8.0.0/16', '2001:4860::/32'] })).status,
    ).toBe(204);
    expect((await world.call('GET', `/sandboxes/${id}`)).body).toMatchObject({
      allowInternetAccess: true,
      network: { denyOut: ['8.8.0.0/16', '2001:4860::/32'] },
    });
    expect((await world.call('PUT', `/sandboxes/${id}/network`, {})).status).toBe(204);
    expect((await world.call('GET', `/sandboxes/${id}`)).body.allowInternetAccess).toBe(true);
  });
});

describe('a call', () => {
  it.each([
    ['GET', '/sandboxes/sbx0000000000000000'],
    ['DELETE', '/sandboxes/ifoo'],
    ['POST', '/sandboxes/sbx0000000000000000/pause'],
    ['POST', '/v2/sandboxes/sbx0000000000000000/connect'],
    ['POST', '/sandboxes/sbx0000000000000000/fork'],
    ['POST', '/sandboxes/sbx0000000000000000/snapshots'],
    ['GET', '/sandboxes/sbx0000000000000000/metrics'],
  ])('%s %s of no sandbox says so', async (method, path) => {
    const id = path.split('/').find((part) => /^(sbx|ifoo)/.test(part));
    const message = `Sandbox "${id}" doesn't exist or you don't have access to it`;
    expect(await world.call(method, path)).toMatchObject({ status: 404, body: { code: 404, message } });
  });

  it('without a good key is a 401, wherever it goes', async () => {
    for (const path of ['/sandboxes', '/v2/sandboxes', '/templates', '/volumes', '/v3/templates']) {
      for (const headers of [{ 'x-api-key': 'no key' }, { 'x-api-key': 'e2b_00' }]) {
        expect(await world.call('GET', path, undefined, headers)).toMatchObject({ status: 401, body: { code: 401 } });
      }
    }
  });

  it('of another tenant’s sandbox is as of none, and a key does here what its roles allow', async () => {
    const id = await make();
    const { baseUrl, apiKey } = world.platform.connection;
    const ours = async (path: string, body: object) => {
      const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
      const answer = await fetch(baseUrl + path, { method: 'POST', headers, body: JSON.stringify(body) });
      return (await answer.json()) as { secretKey?: string; key?: { secretKey: string } };
    };
    const { key } = await ours('/v1/organisations', { name: 'other' });
    const { secretKey } = await ours('/v1/keys', { roles: ['viewer'] });
    const theirs = { 'x-api-key': key?.secretKey ?? '' };
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '/connect'],
      ['POST', '/fork'],
    ] as const) {
      const body = method === 'POST' ? { timeout: 30 } : undefined;
      expect((await world.call(method, `/sandboxes/${id}${path}`, body, theirs)).status).toBe(404);
    }
    const viewer = { 'x-api-key': secretKey ?? '' };
    expect((await world.call('GET', `/sandboxes/${id}`, undefined, viewer)).status).toBe(200);
    expect((await world.call('POST', `/v2/sandboxes/${id}/connect`, {}, viewer)).status).toBe(403);
    expect((await world.call('POST', '/v2/sandboxes', { templateID: 'base' }, viewer)).status).toBe(403);
  });

  it('that chooses no network gets what the organisation allows', async () => {
    await using own = await World.start();
    const { baseUrl, apiKey } = own.platform.connection;
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
    const ours = async (method: string, path: string, body: object) =>
      (await fetch(baseUrl + path, { method, headers, body: JSON.stringify(body) })).json() as Promise<{
        secretKey: string;
      }>;
    const allow = [{ host: 'api.example' }];
    await ours('PUT', '/v1/network', { preset: 'none', allow, ask: [], deny: [], readOnly: [] });
    const { secretKey } = await ours('POST', '/v1/keys', { roles: ['developer'], project: 'default' });
    const reach = async (body: object, more: Record<string, string> = {}) => {
      const made = await own.call('POST', '/v2/sandboxes', { templateID: 'base', ...body }, more);
      if (made.status !== 201) return made.status;
      return (await own.call('GET', `/sandboxes/${made.body.sandboxID}`)).body.network;
    };
    expect(await reach({})).toMatchObject({ allowOut: ['api.example'], denyOut: ['0.0.0.0/0'] });
    expect(await reach({ allow_internet_access: true })).toMatchObject({ allowOut: ['api.example'] });
    expect(await reach({}, { 'x-api-key': secretKey })).toMatchObject({ allowOut: [], denyOut: ['0.0.0.0/0'] });
    expect(await reach({ network: { denyOut: ['0.0.0.0/0'], allowOut: ['other.example'] } })).toBe(403);
  });

  it('with a key for calls that are made once is refused', async () => {
    const headers = { 'idempotency-key': 'one' };
    expect((await world.call('POST', '/v2/sandboxes', { templateID: 'base' }, headers)).status).toBe(400);
  });

  it('of what is not here is refused by name', async () => {
    for (const { method, path } of REFUSED_CALLS) {
      expect(await world.call(method, path)).toMatchObject({ status: 501, body: { code: 501 } });
    }
    expect(await world.call('GET', '/v2/nothing')).toMatchObject({ status: 404, body: { code: 404 } });
  });

  it('that a sandbox cannot take now is a 409', async () => {
    const id = await make();
    expect((await world.call('POST', `/sandboxes/${id}/resume`, {})).status).toBe(409);
    expect((await world.call('POST', `/sandboxes/${id}/pause`, {})).status).toBe(204);
    for (const [path, body] of [
      ['pause', {}],
      ['timeout', { timeout: 5 }],
      ['fork', {}],
    ] as const) {
      expect(await world.call('POST', `/sandboxes/${id}/${path}`, body)).toMatchObject({
        status: 409,
        body: { code: 409 },
      });
    }
    expect((await world.call('POST', `/sandboxes/${id}/connect`, {})).status).toBe(400);
    expect((await world.call('POST', `/v2/sandboxes/${id}/connect`, {})).status).toBe(201);
    expect((await world.call('POST', `/v2/sandboxes/${id}/connect`, {})).status).toBe(200);
  });

  it.each([
    ['/v2', 'connect'],
    ['', 'connect'],
    ['', 'resume'],
  ])(
    'boots what has kept its memory where it says so, and what has kept files alone but once: %s%s',
    async (version, path) => {
      const id = await make();
      const started = async () => {
        const kinds = (await world.call('GET', `/v2/sandboxes/${id}/logs?limit=1000`)).body.logs;
        return (kinds as { message: string }[]).filter(({ message }) => message.startsWith('sandbox.running')).length;
      };
      const cold = () => world.call('POST', `${version}/sandboxes/${id}/${path}`, { memory: false, timeout: 60 });
      const pause = async (memory: boolean) =>
        expect((await world.call('POST', `/sandboxes/${id}/pause`, { memory })).status).toBe(204);
      await pause(true);
      const before = await started();
      expect(await cold()).toMatchObject({ status: 201, body: { sandboxID: id } });
      expect(await started()).toBe(before + 2);
      const { body } = await world.call('GET', `/sandboxes/${id}`);
      expect(body.state).toBe('running');
      expect(Math.abs(Date.parse(body.endAt) - Date.now() - 60_000)).toBeLessThan(5_000);
      await pause(false);
      expect((await cold()).status).toBe(201);
      expect(await started()).toBe(before + 3);
    },
  );

  it('tells what happened to a sandbox, either way, and to no other', async () => {
    const [id, other] = [await make(), await make()];
    for (const path of ['pause', 'connect']) {
      const version = path === 'connect' ? '/v2' : '';
      expect((await world.call('POST', `${version}/sandboxes/${id}/${path}`, {})).status).toBeLessThan(300);
    }
    const logs = async (query = '', of = id) => {
      const { status, body } = await world.call('GET', `/v2/sandboxes/${of}/logs${query}`);
      expect(status).toBe(200);
      return body.logs as { timestamp: string; level: string; message: string; fields: object }[];
    };
    const kinds = (lines: { message: string }[]) => lines.map(({ message }) => message.split(' ')[0]);
    const all = await logs();
    expect(kinds(all).filter((kind) => kind !== 'operation.ended')).toEqual(
      expect.arrayContaining(['sandbox.created', 'sandbox.running', 'sandbox.paused']),
    );
    expect(kinds(await logs('', other))).not.toContain('sandbox.paused');
    expect(await logs('?direction=backward')).toEqual(all.toReversed());
    expect(await logs('?limit=1')).toEqual(all.slice(0, 1));
    expect(kinds(await logs('?search=sandbox.paused'))).toEqual(['sandbox.paused']);
    expect(await logs('?level=error')).toEqual([]);
    expect(await logs(`?cursor=${Date.now() + 60_000}`)).toEqual([]);
    const first = (await world.call('GET', `/sandboxes/${id}/logs?limit=2`)).body;
    expect(first.logEntries).toEqual(all.slice(0, 2));
    expect(first.logs[0]).toEqual({ timestamp: all[0]?.timestamp, line: all[0]?.message });
    expect((await world.call('GET', '/v2/sandboxes/sbx0000000000000000/logs')).status).toBe(404);
  });

  it('forks no more than may be', async () => {
    const id = await make();
    for (const count of [0, 21])
      expect((await world.call('POST', `/sandboxes/${id}/fork`, { count })).status).toBe(400);
  });

  it('finds the templates that are there', async () => {
    expect(await world.call('GET', '/templates/aliases/base')).toMatchObject({
      status: 200,
      body: { templateID: 'base' },
    });
    expect((await world.call('GET', '/templates/aliases/other')).status).toBe(404);
    expect((await world.call('GET', '/templates')).body).toMatchObject([{ templateID: 'base', aliases: ['base'] }]);
    expect((await world.call('DELETE', '/templates/base')).status).toBe(400);
  });
});

describe('the list', () => {
  it('is in order over pages, and its tokens are of one order', async () => {
    await using own = await World.start();
    const ids: string[] = [];
    for (let at = 0; at < 5; at++) {
      ids.push(
        (await own.call('POST', '/v2/sandboxes', { templateID: 'base', metadata: { a: 'b c&d' } })).body.sandboxID,
      );
    }
    const walk = async (query: string) => {
      const seen: string[] = [];
      let token: string | null = '';
      while (token !== null) {
        const { body, headers } = await own.call('GET', `/v2/sandboxes?${query}${token && `&nextToken=${token}`}`);
        expect(headers.get('x-total-running')).toBe('5');
        seen.push(...body.map(({ sandboxID }: { sandboxID: string }) => sandboxID));
        token = headers.get('x-next-token');
      }
      return seen;
    };
    expect(await walk('limit=2&order=asc')).toEqual(ids);
    expect(await walk('limit=2&metadata=a%3Db%252520c%252526d')).toEqual(ids.toReversed());
    const { headers } = await own.call('GET', '/v2/sandboxes?limit=2');
    const token = headers.get('x-next-token');
    for (const query of [
      `nextToken=${token}&order=asc`,
      'nextToken=x',
      'limit=0',
      'limit=101',
      'state=dead',
      'what=1',
    ]) {
      expect(await own.call('GET', `/v2/sandboxes?${query}`)).toMatchObject({ status: 400, body: { code: 400 } });
    }
    expect((await own.call('GET', '/v2/sandboxes?metadata=a%3Dother')).body).toEqual([]);
    expect((await own.call('GET', '/v2/sandboxes?template=other')).body).toEqual([]);
    expect((await own.call('GET', '/sandboxes')).body).toHaveLength(5);
  });

  it('of 300 sandboxes shows each of them once', { timeout: 60_000 }, async () => {
    await using own = await World.start();
    const { Sandbox } = SDKS[0][1];
    const ids = new Set<string>();
    for (let batch = 0; batch < 10; batch++) {
      const made = await Promise.all(Array.from({ length: 30 }, () => Sandbox.create(own.options)));
      for (const { sandboxId } of made) ids.add(sandboxId);
    }
    const seen: string[] = [];
    const pages = Sandbox.list({ ...own.options, limit: 70 });
    while (pages.hasNext) seen.push(...(await pages.nextItems()).map(({ sandboxId }) => sandboxId));
    expect(seen).toHaveLength(300);
    expect(new Set(seen)).toEqual(ids);
  });
});
