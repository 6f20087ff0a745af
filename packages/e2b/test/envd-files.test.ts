/** Files by the unmodified SDKs. */
import * as newest from 'e2b';
import * as earlier from 'e2b-2-45';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createEnvdWorld, type EnvdWorld } from './envd-world.ts';

describe.each([
  ['2.51.0', newest.Sandbox],
  ['2.45.0', earlier.Sandbox as unknown as typeof newest.Sandbox],
])('the files of e2b %s', (_, Sandbox) => {
  let world: EnvdWorld;
  let sandbox: newest.Sandbox;

  beforeAll(async () => {
    world = await createEnvdWorld();
    sandbox = await Sandbox.create(world.options);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  it('are written and read in each format', async () => {
    const info = await sandbox.files.write('notes/a.txt', 'text');
    expect(info).toEqual({ name: 'a.txt', type: 'file', path: '/home/user/notes/a.txt' });
    expect(await sandbox.files.read('/home/user/notes/a.txt')).toBe('text');
    const bytes = Uint8Array.from({ length: 300_000 }, (_, at) => at % 251);
    await sandbox.files.write('b.bin', bytes.buffer);
    expect(Buffer.from(await sandbox.files.read('~/b.bin', { format: 'bytes' })).equals(bytes)).toBe(true);
    expect(await (await sandbox.files.read('notes/a.txt', { format: 'blob' })).text()).toBe('text');
    await sandbox.files.write('c.txt', new Blob(['from a blob']));
    const stream = await sandbox.files.read('c.txt', { format: 'stream' });
    expect(await new Response(stream).text()).toBe('from a blob');
    await sandbox.files.write('d.txt', new Blob(['from a stream']).stream());
    expect(await sandbox.files.read('d.txt')).toBe('from a stream');
  });

  it('are written as one body, compressed both ways', async () => {
    const text = 'line of text\n'.repeat(10_000);
    await sandbox.files.write('zipped.txt', text, { useOctetStream: true, gzip: true });
    expect(await sandbox.files.read('zipped.txt', { gzip: true })).toBe(text);
  });

  it('are written several at once', async () => {
    const written = await sandbox.files.write([
      { path: 'many/1', data: 'one' },
      { path: '/srv/many/2', data: 'two' },
    ]);
    expect(written.map(({ path }) => path)).toEqual(['/home/user/many/1', '/srv/many/2']);
    expect(await sandbox.files.read('/srv/many/2')).toBe('two');
    await sandbox.files.writeFiles([{ path: 'many/3', data: 'three' }]);
    expect(await sandbox.files.read('many/3')).toBe('three');
  });

  it('are told of: kind, size, mode, owner, time, where a link leads', async () => {
    await sandbox.files.write('info.txt', '12345');
    const info = await sandbox.files.getInfo('info.txt');
    expect(info).toMatchObject({
      name: 'info.txt',
      type: 'file',
      path: '/home/user/info.txt',
      size: 5,
      mode: 0o644,
      permissions: '-rw-r--r--',
      owner: 'user',
    });
    expect(info.modifiedTime?.getTime()).toBeGreaterThan(Date.now() - 60_000);
    const { control, caller, sandboxId: id } = world;
    await control.makeSymlink(caller(), { id, path: 'link', target: 'info.txt' });
    await control.makeSymlink(caller(), { id, path: 'dangling', target: 'nowhere' });
    expect(await sandbox.files.getInfo('link')).toMatchObject({ type: 'file', symlinkTarget: '/home/user/info.txt' });
    expect(await sandbox.files.getInfo('dangling')).toMatchObject({ symlinkTarget: '/home/user/dangling' });
  });

  it('are listed, made, moved and removed', async () => {
    expect(await sandbox.files.makeDir('tree/deep')).toBe(true);
    expect(await sandbox.files.makeDir('tree/deep')).toBe(false);
    await sandbox.files.write('tree/deep/file', '');
    expect((await sandbox.files.list('tree')).map(({ path }) => path)).toEqual(['/home/user/tree/deep']);
    const both = await sandbox.files.list('tree', { depth: 2 });
    expect(both.map(({ name, type }) => [name, type])).toEqual([
      ['deep', 'dir'],
      ['file', 'file'],
    ]);
    const moved = await sandbox.files.rename('tree/deep/file', 'new/place');
    expect(moved.path).toBe('/home/user/new/place');
    expect(await sandbox.files.exists('tree/deep/file')).toBe(false);
    await sandbox.files.remove('tree');
    await sandbox.files.remove('tree');
    expect(await sandbox.files.exists('tree')).toBe(false);
  });

  it('that are not there, or are something else, are the errors that the SDK knows', async () => {
    const nameOf = (error: Error) => error.constructor.name;
    const caught = async (promise: Promise<unknown>) => promise.then(() => 'no error', nameOf);
    expect(await caught(sandbox.files.read('none'))).toMatch(/NotFoundError$/);
    expect(await caught(sandbox.files.list('none'))).toMatch(/NotFoundError$/);
    expect(await caught(sandbox.files.rename('none', 'x'))).toMatch(/NotFoundError$/);
    await sandbox.files.write('file', '');
    await expect(sandbox.files.read('/home')).rejects.toThrow("path '/home' is a directory");
    expect(await caught(sandbox.files.list('file'))).toBe('InvalidArgumentError');
    expect(await caught(sandbox.files.makeDir('file'))).toBe('InvalidArgumentError');
    expect(await caught(sandbox.files.watchDir('none', () => undefined))).toMatch(/NotFoundError$/);
    const failed = sandbox.files.read('file', { user: 'nobody-here' });
    await expect(failed).rejects.toThrow("invalid username: 'nobody-here'");
    expect(await caught(failed)).toBe('AuthenticationError');
  });

  it('are watched', async () => {
    await sandbox.files.makeDir('watched/below');
    const seen: string[] = [];
    const watch = await sandbox.files.watchDir('watched', ({ type, name }) => void seen.push(`${type} ${name}`), {
      recursive: true,
    });
    await sandbox.files.write('watched/a', '1');
    await sandbox.files.write('watched/below/b', '1');
    await sandbox.files.rename('watched/a', 'watched/c');
    await sandbox.files.remove('watched/c');
    await expect
      .poll(() => seen)
      .toEqual(expect.arrayContaining(['create a', 'create below/b', 'rename a', 'create c', 'remove c']));
    await watch.stop();
  });
});

// Clients of earlier releases cannot say it.
it('keep what is noted about them, until they are written again', async () => {
  await using world = await createEnvdWorld();
  const sandbox = await newest.Sandbox.create(world.options);
  const metadata = { Author: 'me', purpose: 'a test' };
  const info = await sandbox.files.write('noted', 'x', { metadata });
  expect(info.metadata).toEqual({ author: 'me', purpose: 'a test' });
  expect((await sandbox.files.getInfo('noted')).metadata).toEqual({ author: 'me', purpose: 'a test' });
  expect((await sandbox.files.rename('noted', 'noted2')).metadata).toEqual({ author: 'me', purpose: 'a test' });
  await sandbox.files.write('noted2', 'y');
  expect((await sandbox.files.getInfo('noted2')).metadata).toBeUndefined();
});

it('a download has the length that was announced, or is broken off, whatever becomes of the file meanwhile', async () => {
  await using own = await createEnvdWorld();
  const path = '/home/user/log';
  await own.control.writeFile(own.caller(), { id: own.sandboxId, path }, bytes('hello'));
  const real = own.control.readFile;
  const { status } = await real(own.caller(), { id: own.sandboxId, path });
  const turnsOut = (...texts: string[]) =>
    vi.spyOn(own.control, 'readFile').mockImplementation(async (caller, input) => {
      return input.path === path ? { status, body: bytes(...texts) } : real(caller, input);
    });
  const plain = { headers: { 'accept-encoding': 'identity' } };
  const get = () => fetch(`${own.baseUrl}/files?path=${path}`, plain);
  turnsOut('hel', 'loHTTP/1.1 200 OK\r\n\r\n');
  const grown = await get();
  expect([grown.headers.get('content-length'), await grown.text()]).toEqual(['5', 'hello']);
  turnsOut('he');
  await expect(get().then((shrunk) => shrunk.text())).rejects.toThrow();
});

async function* bytes(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}
