import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type IncomingMessage, type RequestListener, request } from 'node:http';
import { constants } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { gitBackend } from '@space/conformance/git';
import type { AllowRule } from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WayIn } from './way-in.ts';
import { allow, ORGANISATION, text, World } from './world.ts';

const run = promisify(execFile);

let world: World;
beforeEach(async () => {
  world = await World.open();
});
afterEach(() => world.close());

interface Told {
  readonly status: number;
  readonly body: string;
}

/** Answers with what it got, so that a test sees that all of it came. */
const echo: RequestListener = (incoming, answer) => void text(incoming).then((body) => answer.end(body));

async function serve(listener: RequestListener, rule: Partial<AllowRule>): Promise<number> {
  const port = await world.serveHttps('a.test', listener);
  await world.allow({ allow: [allow({ host: 'a.test', access: 'read', ...rule })] });
  return port;
}

async function post(port: number, body: string | Buffer, headers: Record<string, string | string[]> = {}, path = '/x') {
  const socket = await world.tls('a.test', port);
  const all = { host: `a.test:${port}`, 'content-type': 'application/json', ...headers };
  const asked = request({ createConnection: () => socket, method: 'POST', path, headers: all });
  asked.on('error', () => undefined);
  asked.end(body);
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await text(response) } satisfies Told;
}

const call = (tool: string) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: { text: 'é' } } });

describe('git', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'space-git-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  /** As it runs in a sandbox, but that the name of the host leads here. */
  async function git(port: number, ...args: string[]): Promise<string> {
    const settings = {
      'http.sslCAInfo': join(folder, 'authority.pem'),
      'http.curloptResolve': `a.test:${port}:127.0.0.2`,
      'protocol.version': '2',
      'user.name': 'tester',
      'user.email': 'tester@a.test',
      'init.defaultBranch': 'main',
    };
    const given = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const env = { PATH: process.env['PATH'], HOME: folder, GIT_TERMINAL_PROMPT: '0', GIT_CONFIG_NOSYSTEM: '1' };
    const { stdout, stderr } = await run('git', [...given, ...args], { cwd: folder, env });
    return stdout + stderr;
  }

  it('clones and fetches where a rule lets its host be read, and pushes only where it may be written', async () => {
    await git(0, 'init', '--bare', 'box.git');
    await git(0, '-C', 'box.git', 'config', 'http.receivepack', 'true');
    await git(0, 'init', 'first');
    await git(0, '-C', 'first', 'commit', '--allow-empty', '-m', 'one');
    await git(0, '-C', 'first', 'push', join(folder, 'box.git'), 'main');
    const port = await serve(gitBackend(folder), { speaks: 'git' });
    await writeFile(join(folder, 'authority.pem'), (await world.gateway.trust(ORGANISATION)).certificatePem);
    await using _way = await WayIn.open(world, 'a.test', port, '127.0.0.2');

    const url = `https://a.test:${port}/box.git`;
    await git(port, 'clone', url, 'copy');
    expect(await git(0, '-C', 'copy', 'log', '--format=%s')).toContain('one');
    await git(0, '-C', 'copy', 'commit', '--allow-empty', '-m', 'two');
    await expect(git(port, '-C', 'copy', 'push', url, 'main')).rejects.toThrow(/403/);
    expect(await git(0, '-C', 'box.git', 'log', '--format=%s', 'main')).not.toContain('two');

    await world.allow({ allow: [allow({ host: 'a.test', access: 'write', speaks: 'git' })] });
    await git(port, '-C', 'copy', 'push', url, 'main');
    expect(await git(0, '-C', 'box.git', 'log', '--format=%s', 'main')).toContain('two');
    const calls = (await world.records()).map((one) => [one.calls, one.outcome]);
    for (const one of [
      ['git: upload-pack', 'allowed'],
      ['git: receive-pack', 'refused'],
      ['git: receive-pack', 'allowed'],
    ]) {
      expect(calls).toContainEqual(one);
    }
  });

  it('does not fetch where nothing says that the host speaks it, and pushes nowhere that is read only', async () => {
    const port = await serve(echo, {});
    const type = { 'content-type': 'application/x-git-upload-pack-request' };
    expect(await post(port, 'x', type, '/box.git/git-upload-pack')).toMatchObject({ status: 403 });
    const rule = allow({ host: 'a.test', access: 'read', speaks: 'git' });
    await world.allow({ preset: 'internet' }, { readOnly: ['a.test'], allow: [rule] });
    const compressed = { ...type, 'content-encoding': 'gzip' };
    expect(await post(port, 'x', compressed, '/box.git/git-upload-pack')).toEqual({ status: 200, body: 'x' });
    const push = { 'content-type': 'application/x-git-receive-pack-request' };
    expect(await post(port, 'x', push, '/box.git/git-receive-pack')).toMatchObject({ status: 403 });
  });
});

describe('MCP', () => {
  it('calls the tools that a rule names, and no other one, also not in a batch', async () => {
    const port = await serve(echo, { speaks: 'mcp', path: '/mcp', tools: ['search', 'get_*'] });
    const list = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
    for (const body of [call('search'), call('get_file'), list, `[${list},${call('search')}]`]) {
      expect(await post(port, body, {}, '/mcp')).toEqual({ status: 200, body });
    }
    for (const body of [call('delete'), `[${call('search')},${call('delete')}]`, call('Search')]) {
      expect(await post(port, body, {}, '/mcp')).toMatchObject({
        status: 403,
        body: expect.stringContaining('Rule: '),
      });
    }
    expect(await post(port, call('search'), {}, '/other')).toMatchObject({ status: 403 });
    const calls = (await world.records()).map((one) => one.calls);
    expect(calls).toContain('mcp: tools/call search');
    expect(calls).toContain('mcp: tools/list, tools/call search');
    expect(calls).toContain('mcp: tools/call delete');
  });

  it.each<[string, string | Buffer, Record<string, string | string[]>]>([
    ['compressed', gzipSync(call('search')), { 'content-encoding': 'gzip' }],
    ['with a mark before it', `\ufeff${call('search')}`, {}],
    ['with a name twice', call('search').replace('"name"', '"name":"delete","n\\u0061me"'), {}],
    ['with a NUL', call('search').replace('search', 'search\\u0000'), {}],
    ['in another charset', call('search'), { 'content-type': 'application/json; charset=utf-7' }],
    ['with two types', call('search'), { 'content-type': 'application/json', content_type: 'text/plain' }],
    ['longer than is read', call('search').replace('é', 'x'.repeat(300_000)), {}],
    [
      'longer than is read, in chunks',
      call('search').replace('é', 'x'.repeat(300_000)),
      { 'transfer-encoding': 'chunked' },
    ],
    ['with another method in a header', call('search'), { 'x-http-method-override': 'DELETE' }],
  ])('that cannot be told is a write: %s', async (_, body, headers) => {
    const reached: string[] = [];
    const listener: RequestListener = (incoming, answer) => {
      reached.push(`${incoming.url}`);
      answer.end();
    };
    const port = await serve(listener, { speaks: 'mcp', tools: ['search'] });
    expect(await post(port, body, headers)).toMatchObject({ status: 403 });
    expect(reached).toEqual([]);
    // Where all may be written, it leaves as it came.
    await world.allow({ allow: [allow({ host: 'a.test', speaks: 'mcp' })] });
    expect(await post(port, body, headers)).toMatchObject({ status: 200 });
  });

  it('that is denied a tool may call others, and what cannot be told is denied', async () => {
    const port = await world.serveHttps('a.test', echo);
    await world.allow({ preset: 'internet', deny: [{ host: '*.test', path: '/mcp', tools: ['delete_*'] }] });
    expect(await post(port, call('search'), {}, '/mcp')).toMatchObject({ status: 200 });
    for (const path of ['/mcp', '/%6Dcp', '/MCP']) {
      expect(await post(port, call('Delete_all'), {}, path), path).toMatchObject({ status: 403 });
    }
    expect(await post(port, 'what', {}, '/mcp')).toMatchObject({ status: 403 });
    expect(await post(port, 'what', {}, '/other')).toMatchObject({ status: 200 });
  });

  it('streams the events of its answer as they come, and is cut by rules that deny the tool', async () => {
    let say = (_event: string): void => undefined;
    const port = await serve(
      (incoming, answer) => {
        incoming.resume();
        answer.writeHead(200, { 'content-type': 'text/event-stream' });
        say = (event) => void answer.write(`data: ${event}\n\n`);
        say('one');
      },
      { speaks: 'mcp', tools: ['search'] },
    );
    const socket = await world.tls('a.test', port);
    const headers = { host: `a.test:${port}`, 'content-type': 'application/json' };
    const asked = request({ createConnection: () => socket, method: 'POST', path: '/', headers });
    asked.end(call('search'));
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    const [first] = (await once(response, 'data')) as [Buffer];
    expect(`${first}`).toBe('data: one\n\n');
    const next = once(response, 'data');
    say('two');
    expect(`${(await next)[0]}`).toBe('data: two\n\n');

    const ended = once(response, 'error');
    await world.allow({ allow: [allow({ host: 'a.test', access: 'read', speaks: 'mcp', tools: ['other'] })] });
    await ended;
    await expect.poll(() => world.records()).toMatchObject([{ calls: 'mcp: tools/call search', outcome: 'cut' }]);
  });

  it('waits for `100 Continue` no longer than until it is looked into', async () => {
    const port = await serve(echo, { speaks: 'mcp', tools: ['search'] });
    const socket = await world.tls('a.test', port);
    const headers = { host: `a.test:${port}`, 'content-type': 'application/json', expect: '100-continue' };
    const asked = request({ createConnection: () => socket, method: 'POST', path: '/', headers });
    asked.flushHeaders();
    await once(asked, 'continue');
    asked.end(call('search'));
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    expect(await text(response)).toBe(call('search'));
  });
});

describe('GraphQL', () => {
  const document = (query: string, more: object = {}) => JSON.stringify({ query, ...more });
  const QUERY = 'query Mine { viewer { name } }';
  const MUTATION = 'mutation { deleteAll }';

  it.each([
    ['a query', document(QUERY), 200],
    ['one without a word', document('{ viewer { name } }'), 200],
    ['fragments and variables', document('query($a: ID!) { n(id: $a) { ...f } } fragment f on N { id }'), 200],
    ['a word in a comment', document('# mutation { x }\nquery { a }'), 200],
    ['a word in a text', document('query { a(b: """ mutation { x } """) }'), 200],
    ['a batch of queries', `[${document(QUERY)},${document(QUERY)}]`, 200],
    ['a mutation', document(MUTATION), 403],
    ['a mutation behind a comment', document(`#\n#query {\n${MUTATION}`), 403],
    ['a mutation behind another line break', document(`# query { a }\r${MUTATION}`), 403],
    ['a mutation behind commas', document(`,,,${MUTATION}`), 403],
    ['a subscription', document('subscription { a }'), 403],
    ['two operations, of which the query is chosen', document(`${QUERY} ${MUTATION}`, { operationName: 'Mine' }), 403],
    ['a batch with one mutation', `[${document(QUERY)},${document(MUTATION)}]`, 403],
    ['a stored document', '{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"0"}}}', 403],
    ['a schema', document('type Query { a: Int }'), 403],
    ['fragments only', document('fragment f on N { id }'), 403],
    ['no document', document('what'), 403],
    ['a mark in it', document(`\ufeff${QUERY}`), 403],
    ['a NUL in it', document(`${QUERY}\0`), 403],
    ['more depth than can be read', document('{a'.repeat(20_000) + '}'.repeat(20_000)), 403],
  ])('is told by its document: %s', async (_, body, status) => {
    const port = await serve(echo, { speaks: 'graphql' });
    expect(await post(port, body)).toMatchObject({ status });
  });

  it('is told in each stream of HTTP/2 by itself', async () => {
    const port = await world.serveHttp2('a.test', (stream) => {
      stream.respond({ ':status': 200 });
      stream.pipe(stream);
    });
    await world.allow({ allow: [allow({ host: 'a.test', access: 'read', speaks: 'graphql' })] });
    const session = await world.http2('a.test', port);
    const ask = async (method: string, path: string, body?: string): Promise<[number, string]> => {
      const headers = {
        ':method': method,
        ':path': path,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      };
      const stream = session.request(headers, { endStream: body === undefined });
      if (body !== undefined) stream.end(body);
      const told = text(stream);
      const [response] = (await once(stream, 'response')) as [Record<string, number>];
      return [response[constants.HTTP2_HEADER_STATUS] ?? 0, await told];
    };
    const long = document(QUERY, { variables: { a: 'x'.repeat(100_000) } });
    const answers = await Promise.all([
      ask('POST', '/graphql', document(QUERY)),
      ask('POST', '/graphql', document(MUTATION)),
      ask('POST', '/graphql', long),
      ask('GET', `/graphql?query=${encodeURIComponent(QUERY)}`),
      ask('GET', `/graphql?query=${encodeURIComponent(MUTATION)}`),
      ask('GET', '/graphql'),
    ]);
    expect(answers.map(([status]) => status)).toEqual([200, 403, 200, 200, 403, 200]);
    expect(answers[2]?.[1]).toBe(long);
    session.destroy();
  });
});

describe('JSON-RPC', () => {
  it('calls the methods that a rule says are reading', async () => {
    const port = await serve(echo, { speaks: 'json-rpc', reads: ['eth_call', 'eth_get*'] });
    const ask = (method: string) => `{"jsonrpc":"2.0","id":1,"method":"${method}","params":[]}`;
    expect(await post(port, ask('eth_getBalance'), {}, '/?key=1')).toMatchObject({ status: 200 });
    expect(await post(port, ask('eth_sendTransaction'))).toMatchObject({ status: 403 });
    expect(await post(port, `[${ask('eth_call')},${ask('eth_sendTransaction')}]`)).toMatchObject({ status: 403 });
  });
});

describe('requests that are looked into', () => {
  it('are so many of one sandbox at once, and no more', async () => {
    const port = await serve(() => undefined, { speaks: 'mcp', tools: ['search'] });
    const opened = await Promise.all(Array.from({ length: 129 }, () => world.tls('a.test', port)));
    const begin = opened.map((socket) => {
      const headers = { host: `a.test:${port}`, 'content-type': 'application/json', 'content-length': '1000' };
      const asked = request({ createConnection: () => socket, method: 'POST', path: '/', headers });
      asked.on('error', () => undefined);
      asked.flushHeaders();
      return once(asked, 'response').then(([response]) => (response as IncomingMessage).statusCode);
    });
    for (const one of begin) one.catch(() => undefined);
    expect(await Promise.race(begin)).toBe(503);
  });
});
