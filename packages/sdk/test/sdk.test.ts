import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { PRINTED } from '../../http/test/memory-use-cases.ts';
import { KEY, until, World } from '../../http/test/world.ts';
import {
  type ConnectionOptions,
  deleteSnapshot,
  ForkError,
  getCapabilities,
  getSnapshot,
  listSnapshots,
  listTemplates,
  Sandbox,
  SpaceError,
} from '../src/index.ts';

let world: World;
let connection: ConnectionOptions;

beforeAll(async () => {
  world = await World.start({ times: { heartbeatMs: 20, interimMs: 20 } });
  connection = { apiKey: KEY, baseUrl: world.url };
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});
beforeEach(() => {
  world.useCases.sandboxes.clear();
  world.useCases.snapshots.clear();
});

const create = (options: Parameters<typeof Sandbox.create>[0] = {}) => Sandbox.create({ ...connection, ...options });

/** An agent of Node's fetch, which exports no class for one, that waits one second for headers, not five minutes. */
function hurriedAgent(): object {
  const Agent = Reflect.get(globalThis, Symbol.for('undici.globalDispatcher.1')).constructor;
  return new Agent({ headersTimeout: 1000 });
}

/** What the promise fails with. */
async function failure(promise: Promise<unknown>): Promise<SpaceError> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof SpaceError)) throw new Error(`Not a SpaceError: ${error}`, { cause: error });
  return error;
}

describe('sandboxes', () => {
  test('are created, found, listed, refreshed and deleted', async () => {
    const made = await create({ name: 'one', env: { A: 'b' }, metadata: { c: 'd' }, size: { vcpus: 1 } });
    expect(made).toMatchObject({ name: 'one', status: 'running', fields: { metadata: { c: 'd' } } });
    expect(made.id).toMatch(/^sbx_/);
    expect(made.fields).not.toHaveProperty('env');
    expect(await made.env()).toEqual({ A: 'b' });
    expect((await Sandbox.connect('one', connection)).id).toBe(made.id);
    expect((await Sandbox.list(connection)).map(({ id }) => id)).toEqual([made.id]);
    expect(await Sandbox.list({ ...connection, status: 'paused' })).toEqual([]);
    const other = await Sandbox.connect(made.id, connection);
    await made.pause();
    expect([made.status, other.status]).toEqual(['paused', 'running']);
    expect((await other.refresh()).status).toBe('paused');
    expect((await made.resume()).status).toBe('running');
    await made.delete();
    await made.delete();
    expect((await failure(made.refresh())).code).toBe('not_found');
  });

  test('a list takes as many pages as it needs', async () => {
    for (let index = 0; index < 120; index += 1) await create();
    expect(await Sandbox.list(connection)).toHaveLength(120);
  });

  test('`await using` deletes at the end of the block', async () => {
    {
      await using sandbox = await create();
      expect(world.useCases.sandboxes.has(sandbox.id)).toBe(true);
    }
    expect(world.useCases.sandboxes.size).toBe(0);
  });

  test('a create that takes longer than fetch waits for headers is waited for', async () => {
    await fetch(world.url).catch(() => undefined);
    const dispatcher = hurriedAgent();
    const hurried = ((url, init) => fetch(url, { ...init, dispatcher } as RequestInit)) as typeof fetch;
    world.useCases.createMs = 3500;
    try {
      expect((await create({ fetch: hurried })).status).toBe('running');
      // The same without interim answers fails, so the above proves something.
      const headers = { authorization: `Bearer ${KEY}` };
      await expect(hurried(`${world.url}/v1/sandboxes`, { method: 'POST', headers })).rejects.toThrow();
    } finally {
      world.useCases.createMs = 0;
    }
  });
});

describe('commands', () => {
  test('give output and exit; a non-zero exit is a result', async () => {
    const sandbox = await create({ env: { A: '1', B: '2' } });
    expect(await sandbox.run('echo hi there')).toEqual({
      exitCode: 0,
      signal: null,
      timedOut: false,
      stdout: 'hi there\n',
      stderr: '',
      stdoutBytes: new TextEncoder().encode('hi there\n'),
      stderrBytes: new Uint8Array(),
      stdoutTruncated: false,
      stderrTruncated: false,
      oom: false,
      lostBytes: 0,
    });
    expect(await sandbox.run('exit 3')).toMatchObject({ exitCode: 3, stderr: 'bad\n', stdout: '' });
    expect(await sandbox.run(['killed'])).toMatchObject({ exitCode: null, signal: 'SIGKILL', timedOut: true });
    const { stdout } = await sandbox.run('env', { env: { B: '3' }, cwd: '/tmp', user: 'root', timeoutMs: 1000 });
    expect(JSON.parse(stdout)).toEqual({ A: '1', B: '3' });
  });

  test('characters that come in pieces are whole', async () => {
    const sandbox = await create();
    const pieces: string[] = [];
    const { stdout } = await sandbox.run('split', { onStdout: (text) => pieces.push(text) });
    expect(stdout).toBe('aé€😀z');
    expect(pieces).toEqual(['a', 'é', '€', '😀', 'z']);
  });

  test('what is kept of the output is bounded, and the rest is flagged', async () => {
    const sandbox = await create();
    const result = await sandbox.run('much 3', { maxOutputBytes: 1000 });
    expect(result).toMatchObject({ exitCode: 0, stdoutTruncated: true, stderrTruncated: false });
    expect(result.stdoutBytes).toHaveLength(1000);
  });

  test('events come as they happen, and leaving the loop ends the stream', async () => {
    const sandbox = await create();
    const ended = world.useCases.seen.ended;
    const types: string[] = [];
    for await (const event of sandbox.exec('endless')) {
      types.push(event.type);
      if (types.length === 3) break;
    }
    expect(types).toEqual(['started', 'stdout', 'stdout']);
    await until(() => world.useCases.seen.ended === ended + 1);
  });

  test('a quiet command is waited for', async () => {
    const sandbox = await create();
    expect(await sandbox.run('quiet 150')).toMatchObject({ exitCode: 0 });
  });

  test('a signal ends the waiting, with its own reason', async () => {
    const sandbox = await create();
    const reason = new Error('enough');
    const aborted = world.useCases.seen.aborted;
    const controller = new AbortController();
    const running = sandbox.run('quiet 60000', { signal: controller.signal });
    setTimeout(() => controller.abort(reason), 50);
    await expect(running).rejects.toBe(reason);
    await until(() => world.useCases.seen.aborted === aborted + 1);
  });

  test.each([
    ['nonsense', 'command_not_started', 400],
    ['fail vm_lost', 'vm_lost', 502],
    ['cut', 'link_lost', 502],
    ['bug', 'internal', 500],
  ])('%s throws %s', async (command, code, status) => {
    const sandbox = await create();
    const error = await failure(sandbox.run(command));
    expect(error).toMatchObject({ code, status });
    expect(error.requestId).toMatch(/^req_/);
    expect(error.nextStep).not.toBe('');
    expect(error.message).toContain(code);
  });

  test('processes are listed and killed', async () => {
    const sandbox = await create();
    const [process] = await sandbox.processes();
    if (process === undefined) throw new Error('none');
    await sandbox.kill(process.processId);
    await sandbox.kill(process.processId, 'SIGINT', { target: 'leader' });
    const { processId } = process;
    expect(world.useCases.signals).toEqual([`${processId} SIGKILL tree`, `${processId} SIGINT leader`]);
    expect(await sandbox.processes({ ended: true })).toHaveLength(2);
  });

  test('are started without waiting, and get another size of their terminal', async () => {
    const sandbox = await create();
    const { processId, pid } = await sandbox.start('quiet 60000', { pty: { cols: 80, rows: 24 } });
    expect([processId.slice(0, 4), pid]).toEqual(['prc_', 42]);
    await sandbox.resizeTerminal(processId, { cols: 100, rows: 40 });
    expect(world.useCases.sizes.at(-1)).toEqual([100, 40]);
  });

  test('are attached to; an interruption is thrown, or gone over when that is asked for', async () => {
    const sandbox = await create();
    const { processId } = await sandbox.start('quiet 60000');
    world.useCases.interruptions = 1;
    await expect(Array.fromAsync(sandbox.attach(processId))).rejects.toMatchObject({ code: 'link_lost' });
    world.useCases.interruptions = 3;
    const events = await Array.fromAsync(sandbox.attach(processId, { stdoutOffset: 5, reattach: true }));
    expect(events.map(({ type }) => type).filter((type) => type === 'started' || type === 'exited')).toEqual([
      'started',
      'exited',
    ]);
    const output = events.flatMap((event) => (event.type === 'stdout' ? [event.data] : []));
    expect(`${Buffer.concat(output)}`).toBe(`${Buffer.from(PRINTED.subarray(5))}`);
    // Each time the stderr of this server loses seven bytes more.
    const lost = events.flatMap((event) => (event.type === 'lost' ? [event.offset] : []));
    expect(lost).toEqual([0, 7, 14, 21]);
  });

  test.each([
    ['text', () => 'hëllo'],
    ['bytes', () => Buffer.from('hëllo')],
    [
      'pieces',
      async function* () {
        yield Buffer.from('hë');
        yield Buffer.from('llo');
      },
    ],
  ])('are given input from %s', async (_, stdin) => {
    await using own = await World.start();
    const sandbox = await Sandbox.create({ apiKey: KEY, baseUrl: own.url });
    expect(await sandbox.run('cat', { stdin: stdin() })).toMatchObject({ exitCode: 0, stdout: 'hëllo' });
  });

  test('need not read their input; input that fails ends the waiting', async () => {
    const sandbox = await create();
    async function* forever() {
      for (;;) yield await new Promise<Uint8Array>((resolve) => setTimeout(resolve, 5, Buffer.alloc(10)));
    }
    expect(await sandbox.run('deaf', { stdin: forever() })).toMatchObject({ exitCode: 0 });
    async function* broken() {
      yield Buffer.from('x');
      throw new Error('a broken source');
    }
    await expect(sandbox.run('quiet 60000', { stdin: broken() })).rejects.toThrow();
  });
});

describe('files', () => {
  const BYTES = Uint8Array.from({ length: 300_000 }, (_, index) => index % 251);

  async function* pieces() {
    yield BYTES.subarray(0, 100_000);
    yield BYTES.subarray(100_000);
  }

  test.each([
    ['bytes', () => BYTES],
    ['a buffer', () => BYTES.buffer],
    ['a blob', () => new Blob([BYTES])],
    ['a stream', () => new Blob([BYTES]).stream()],
    ['pieces', pieces],
  ])('are written from %s', async (_, content) => {
    const { files } = await create();
    const written = await files.write('/f', content(), { mode: 0o700 });
    expect(written).toMatchObject({ path: '/f', sizeBytes: BYTES.length });
    expect(await files.readBytes('/f')).toEqual(BYTES);
    expect(await files.stat('/f')).toMatchObject({ name: 'f', mode: '0700', type: 'file' });
  });

  test('are read as text, in part, as a stream, and listed', async () => {
    const { files } = await create();
    await files.write('/ü & b.txt', '\ufeffgrüße');
    expect(await files.read('/ü & b.txt')).toBe('\ufeffgrüße');
    expect(await files.read('/ü & b.txt', { offset: 3, length: 2 })).toBe('gr');
    const stream = await files.readStream('/ü & b.txt');
    expect(await new Response(stream).text()).toBe('grüße');
    expect((await files.list('/')).map(({ name }) => name)).toEqual(['home', 'ü & b.txt']);
    expect((await failure(files.list('/missing'))).code).toBe('file_not_found');
  });

  test('have names of any bytes, and listings give paths for further calls', async () => {
    const { files } = await create();
    const odd = Uint8Array.of(0x2f, 0x64, 0x2f, 0xff, 0x0a);
    expect((await files.write(odd, 'odd', { ifAbsent: true })).path).toBe(odd);
    expect((await failure(files.write(odd, 'x', { ifAbsent: true }))).code).toBe('file_exists');
    await files.write('/d/-rf', 'plain');
    const entries = await files.list('/d');
    expect(entries.map(({ name }) => name)).toEqual(['-rf', odd.subarray(3)]);
    const contents = await Promise.all(entries.map(({ path }) => files.read(path)));
    expect(contents).toEqual(['plain', 'odd']);
    await files.move(odd, '/d/even');
    expect((await files.symlink(odd, 'link')).linkTarget).toEqual(odd);
    expect((await files.list('/', { depth: 2 })).map(({ path }) => path)).toEqual([
      '/d',
      '/d/-rf',
      '/d/even',
      '/home',
      '/home/user',
    ]);
    expect(await files.remove('/d', { recursive: true })).toBe(3);
  });

  test('have directories, modes, owners and attributes', async () => {
    const { files } = await create();
    expect(await files.makeDirectory('a/b', { parents: true, mode: 0o700 })).toMatchObject({ mode: '0700' });
    expect(await files.chmod('a/b', 0)).toMatchObject({ mode: '0000', path: 'a/b' });
    expect(await files.chown('a/b', { owner: 0, group: 'nogroup' })).toMatchObject({ uid: 0, gid: 65_534 });
    await files.xattrs.set('a', 'user.note', Uint8Array.of(0, 255));
    expect(await files.xattrs.list('a')).toEqual(['user.note']);
    expect(await files.xattrs.get('a', 'user.note')).toEqual(Uint8Array.of(0, 255));
    await files.xattrs.remove('a', 'user.note');
    expect((await failure(files.xattrs.get('a', 'user.note'))).code).toBe('attribute_not_found');
  });

  test('are watched, until the loop is left, the signal aborts, or the life ends', async () => {
    const sandbox = await create();
    const { files } = sandbox;
    await files.write('/d/f', '1');
    const seen: string[] = [];
    for await (const event of files.watch('/d')) {
      seen.push(event.type);
      if (event.type === 'ready') await files.remove('/d/f');
      if (event.type === 'removed') break;
    }
    expect(seen).toEqual(['ready', 'removed']);
    const controller = new AbortController();
    const watching = files.watch('/d', { recursive: true, signal: controller.signal });
    expect(await watching.next()).toEqual({ done: false, value: { type: 'ready' } });
    controller.abort(new Error('enough'));
    await expect(watching.next()).rejects.toThrow('enough');
    const other = files.watch('/d');
    await other.next();
    world.useCases.sandboxes.get(sandbox.id)?.files.lose();
    expect((await failure(other.next())).code).toBe('vm_lost');
    expect((await failure(files.watch('/none').next())).code).toBe('file_not_found');
  });

  test('a stream that is left ends its source', async () => {
    const { files } = await create();
    const ended = world.useCases.seen.ended;
    const reader = (await files.readStream('/endless')).getReader();
    await reader.read();
    await reader.cancel();
    await until(() => world.useCases.seen.ended === ended + 1);
  });

  test('errors have their codes', async () => {
    const { files } = await create();
    expect((await failure(files.read('/none'))).code).toBe('file_not_found');
    expect((await failure(files.write('/full', new Uint8Array(5_000_000)))).code).toBe('guest_full');
    expect((await failure(files.write('/f', 'x', { mode: 0o77777 }))).code).toBe('misused');
    expect(['link_lost', 'unreachable']).toContain((await failure(files.readBytes('/broken'))).code);
  });
});

describe('state', () => {
  test('snapshots, timeline, rewind and its undoing', async () => {
    const sandbox = await create();
    const first = await sandbox.snapshot({ name: 'first', note: 'n' });
    expect(first).toMatchObject({ name: 'first', note: 'n', cause: 'snapshot', parent: null });
    const second = await sandbox.snapshot();
    expect((await sandbox.timeline()).snapshots.map(({ id, parent }) => [id, parent])).toEqual([
      [second.id, first.id],
      [first.id, null],
    ]);
    const kept = await sandbox.rewind(first);
    expect(sandbox.fields).toMatchObject({ head: first.id, generation: 2 });
    expect(kept?.cause).toBe('rewind');
    await sandbox.rewind(kept?.id ?? '');
    await sandbox.rewind('first');
    expect(sandbox.fields.generation).toBe(4);
  });

  test('forks are sandboxes; some that fail come with those that did not', async () => {
    const sandbox = await create();
    const [left, right] = await sandbox.fork(2);
    expect(left?.fields.forkedFrom?.sandboxId).toBe(sandbox.id);
    expect(await right?.run('echo x')).toMatchObject({ exitCode: 0 });
    const point = await sandbox.snapshot();
    const error = await sandbox.fork(5, { from: point }).catch((thrown: unknown) => thrown);
    if (!(error instanceof ForkError)) throw new Error('no ForkError');
    expect(error.sandboxes).toHaveLength(3);
    expect(error.errors.map(({ code }) => code)).toEqual(['insufficient_memory', 'insufficient_memory']);
    expect(error).toBeInstanceOf(AggregateError);
    expect((await failure(sandbox.fork(21))).code).toBe('bad_request');
  });

  test('named snapshots are listed, got, started from and deleted', async () => {
    const sandbox = await create();
    const point = await sandbox.snapshot({ name: 'good' });
    expect(await listSnapshots(connection)).toHaveLength(1);
    expect(await getSnapshot('good', connection)).toEqual(point);
    const started = await create({ snapshot: point });
    expect(started.fields.forkedFrom?.snapshotId).toBe(point.id);
    await deleteSnapshot('good', connection);
    expect((await failure(getSnapshot('good', connection))).code).toBe('not_found');
  });

  test('templates and capabilities', async () => {
    expect(await listTemplates(connection)).toMatchObject([{ name: 'base' }]);
    expect(await getCapabilities(connection)).toMatchObject({ accelerator: { name: 'tcg' } });
  });
});

describe('connections', () => {
  test('take key and URL from the environment', async () => {
    const env: { SPACE_API_KEY?: string; SPACE_URL?: string } = process.env;
    const before = { SPACE_API_KEY: undefined, SPACE_URL: undefined, ...env };
    try {
      env.SPACE_API_KEY = KEY;
      env.SPACE_URL = `${world.url}/`;
      expect((await Sandbox.create()).status).toBe('running');
      delete env.SPACE_API_KEY;
      expect((await failure(Sandbox.create())).code).toBe('misused');
    } finally {
      for (const name of ['SPACE_API_KEY', 'SPACE_URL'] as const) {
        if (before[name] === undefined) delete env[name];
        else env[name] = before[name];
      }
    }
  });

  test('a wrong key, no server, and another server are told apart', async () => {
    expect((await failure(Sandbox.list({ ...connection, apiKey: 'no' }))).code).toBe('unauthenticated');
    const nobody = await failure(Sandbox.list({ apiKey: KEY, baseUrl: 'http://127.0.0.1:1' }));
    expect(nobody).toMatchObject({ code: 'unreachable', retry: 'later', status: undefined });
    for (const status of [200, 500, 302]) {
      const other = createServer((_, response) =>
        response.writeHead(status, { location: 'http://x.invalid' }).end('<html>'),
      );
      await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
      const baseUrl = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
      const { code } = await failure(Sandbox.list({ apiKey: KEY, baseUrl }));
      expect(code).toBe(status === 302 ? 'unreachable' : 'invalid_answer');
      other.closeAllConnections();
      other.close();
    }
  });

  test('the key is in no error', async () => {
    const error = await failure(Sandbox.list({ apiKey: 'space_secret', baseUrl: world.url }));
    expect(JSON.stringify(error) + error.stack).not.toContain('space_secret');
  });
});

describe('repeating', () => {
  /** A server of one answer after another, which remembers what it was asked. */
  async function answering(...statuses: number[]) {
    const keys: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      keys.push(request.headers['idempotency-key'] as string | undefined);
      request.resume();
      const status = statuses[Math.min(keys.length, statuses.length) - 1] ?? 500;
      response.writeHead(status, {
        'content-type': 'application/json',
        ...(status === 503 ? { 'retry-after': '0' } : {}),
      });
      response.end(
        status === 200 ? '{}' : JSON.stringify({ code: 'unavailable', detail: 'x', retry: 'later', status }),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const close = () => new Promise((resolve) => server.close(resolve));
    return { keys, close, options: { apiKey: KEY, baseUrl: `http://127.0.0.1:${port}` } };
  }

  test('sends one key per call, and another for the next call', async () => {
    const server = await answering(503, 503, 200);
    await Sandbox.create(server.options);
    expect(server.keys).toHaveLength(3);
    expect(new Set(server.keys).size).toBe(1);
    expect(server.keys[0]).toMatch(/^[0-9a-f-]{36}$/);
    await Sandbox.create(server.options);
    expect(server.keys[3]).not.toBe(server.keys[0]);
    await server.close();
  });

  test.each([500, 502, 504, 409, 429])('does not repeat after %i', async (status) => {
    const server = await answering(status, 200);
    await failure(Sandbox.create(server.options));
    expect(server.keys).toHaveLength(1);
    await server.close();
  });

  test.each([
    ['a read', (options: ConnectionOptions) => Sandbox.connect('one', options)],
    ['a call that its key names', (options: ConnectionOptions) => Sandbox.create(options)],
  ])('sends %s again when the connection broke before an answer, under one key', async (_, call) => {
    const keys: unknown[] = [];
    const server = createServer((request, response) => {
      keys.push(request.headers['idempotency-key']);
      if (keys.length === 1) request.socket.destroy();
      else response.end('{}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    await call({ apiKey: KEY, baseUrl: `http://127.0.0.1:${port}` });
    expect(keys).toEqual([keys[0], keys[0]]);
    await new Promise((resolve) => server.close(resolve));
  });

  test('does not send an upload again when the connection broke', async () => {
    let asked = 0;
    const cutting = ((url, init) => {
      if (init?.method !== 'PUT') return fetch(url, init);
      asked += 1;
      return Promise.reject(
        new TypeError('fetch failed', { cause: Object.assign(new Error(), { code: 'ECONNRESET' }) }),
      );
    }) as typeof fetch;
    const sandbox = await create({ fetch: cutting });
    expect((await failure(sandbox.files.write('/f', 'x'))).code).toBe('unreachable');
    expect(asked).toBe(1);
  });

  test('gives up in the end, and at once when it is told to', async () => {
    const server = await answering(503);
    expect((await failure(Sandbox.create(server.options))).code).toBe('unavailable');
    expect(server.keys).toHaveLength(3);
    await failure(Sandbox.create({ ...server.options, maxRetries: 0 }));
    expect(server.keys).toHaveLength(4);
    await server.close();
  });

  test('tries a server that refuses as often as it is told to', async () => {
    const server = await answering(200);
    await server.close();
    let asked = 0;
    const counting = ((url, init) => {
      asked += 1;
      return fetch(url, init);
    }) as typeof fetch;
    expect((await failure(Sandbox.create({ ...server.options, fetch: counting, maxRetries: 3 }))).code).toBe(
      'unreachable',
    );
    expect(asked).toBe(4);
  });

  test('waits for a server that is just starting', async () => {
    const server = await answering(200);
    await server.close();
    const port = Number(new URL(server.options.baseUrl).port);
    const listing = Sandbox.create(server.options);
    const late = createServer((request, response) => {
      request.resume();
      response.end('{}');
    });
    setTimeout(() => late.listen(port, '127.0.0.1'), 50);
    await listing;
    await new Promise((resolve) => late.close(resolve));
  });
});

describe('another version of the server', () => {
  /** The server, as one that says that it is of that version (null: says nothing), and whose answers are changed. */
  function as(version: string | null, change: (text: string) => string = (text) => text): typeof fetch {
    return async (url, init) => {
      const response = await fetch(url, init);
      const headers = new Headers(response.headers);
      headers.delete('x-space-version');
      headers.delete('content-length');
      if (version !== null) headers.set('x-space-version', version);
      const { status } = response;
      return new Response(status === 204 ? null : change(await response.text()), { status, headers });
    };
  }

  test.each(['0.1.0', '0.1.7-rc.1', '0.9.0', '1.0.0', '1.99.3', null])('%s is worked with', async (version) => {
    expect((await create({ fetch: as(version) })).status).toBe('running');
  });

  test.each(['0.0.9', '2.0.0', '10.1.0'])('%s is refused by name, before its answer is believed', async (version) => {
    const error = await failure(create({ fetch: as(version) }));
    expect(error).toMatchObject({ code: 'version_unfit', retry: 'never' });
    expect(error.message).toContain(`The server is of version ${version}`);
    expect(error.nextStep).toContain('0.1');
  });

  test('a newer one may say more than this client knows', async () => {
    const more = as('1.5.0', (text) =>
      text
        .replace('{"id":"sbx', '{"colour":"blue","id":"sbx')
        .replace('{"type":"exited"', '{"type":"weather","it":"rains"}\n{"type":"exited"'),
    );
    const sandbox = await create({ fetch: more });
    expect(sandbox.fields).toMatchObject({ colour: 'blue', status: 'running' });
    expect(await sandbox.run('echo hi')).toMatchObject({ exitCode: 0, stdout: 'hi\n', lostBytes: 0 });
  });
});
