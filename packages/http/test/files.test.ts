/** Files over HTTP: names of any bytes, changes, attributes and watches. */
import { expect, test } from 'vitest';
import { eventsOf, KEY, World, wholeAnswer } from './world.ts';

const json = (method: string, body: object): RequestInit => ({
  method,
  body: JSON.stringify(body),
  headers: { 'content-type': 'application/json' },
});
/** The bytes a, 0xff, newline. */
const ODD = Buffer.from('a\xff\n', 'latin1').toString('base64');

test('a name that is not UTF-8 goes both ways in base64, and UTF-8 is text in either form', async () => {
  await using world = await World.start();
  const path = await world.sandbox();
  const odd = encodeURIComponent(Buffer.from('/d/a\xff\n', 'latin1').toString('base64'));
  const put = await world.fetch(`${path}/files?pathBase64=${odd}`, { method: 'PUT', body: 'x' });
  expect(await put.json()).toMatchObject({ path: null, pathBase64: decodeURIComponent(odd), sizeBytes: 1 });
  expect(await (await world.fetch(`${path}/files?pathBase64=${odd}`)).text()).toBe('x');
  const [listed] = await eventsOf(await world.fetch(`${path}/files/list?path=/d`));
  expect(listed).toMatchObject({ entry: { name: null, nameBase64: ODD, path: null, pathBase64: ODD } });
  const plain = encodeURIComponent(Buffer.from('/d').toString('base64'));
  expect(await (await world.fetch(`${path}/files/stat?pathBase64=${plain}`)).json()).toMatchObject({
    name: 'd',
    path: '/d',
  });
  const removed = await world.fetch(`${path}/files?pathBase64=${odd}`, { method: 'DELETE' });
  expect(await removed.json()).toEqual({ removed: 1 });
});

test.each([
  '',
  '?path=a&pathBase64=YQ',
  '?pathBase64=',
  '?pathBase64=YQ%3D%3DYQ',
  '?pathBase64=AA%3D%3D',
  '?path=a&follow=yes',
])('the query "%s" is refused', async (query) => {
  await using world = await World.start();
  const path = await world.sandbox();
  expect((await world.fetch(`${path}/files/stat${query}`)).status).toBe(400);
});

test('directories, moves, links, owners and modes', async () => {
  await using world = await World.start();
  const path = await world.sandbox();
  const send = async (method: string, place: string, body: object) => {
    const response = await world.fetch(`${path}/files${place}`, json(method, body));
    return response.status === 204 ? 204 : ((await response.json()) as object);
  };
  expect(await send('POST', '/directories', { path: '/a/b' })).toMatchObject({ code: 'file_not_found' });
  expect(await send('POST', '/directories', { path: '/a/b', parents: true, mode: '1777' })).toMatchObject({
    type: 'directory',
    mode: '1777',
  });
  expect(await send('POST', '/directories', { path: '/a/b' })).toMatchObject({ code: 'file_exists', status: 409 });
  expect(await send('POST', '/symlinks', { path: '/a/link', targetBase64: ODD })).toMatchObject({
    type: 'symlink',
    linkTarget: null,
    linkTargetBase64: ODD,
  });
  expect(await send('POST', '/move', { from: '/a/b', to: '/a/c' })).toBe(204);
  expect(await send('POST', '/move', { from: '/a/c', to: '/a/link', overwrite: false })).toMatchObject({
    code: 'file_exists',
  });
  expect(await send('PATCH', '', { path: '/a/c', mode: '0', owner: 'root' })).toMatchObject({ code: 'bad_request' });
  expect(await send('PATCH', '', { path: '/a/c', mode: '000', owner: 'root', group: '7' })).toMatchObject({
    mode: '0000',
    uid: 0,
    gid: 7,
  });
  const entries = await eventsOf(await world.fetch(`${path}/files/list?path=/&depth=2`));
  expect(entries.map((event) => (event as unknown as { entry?: { path: string } }).entry?.path)).toEqual([
    'a',
    'a/c',
    'a/link',
    'home',
    'home/user',
    undefined,
  ]);
  expect(await (await world.fetch(`${path}/files?path=/a`, { method: 'DELETE' })).json()).toMatchObject({
    code: 'directory_not_empty',
  });
  expect(await (await world.fetch(`${path}/files?path=/a&recursive=true`, { method: 'DELETE' })).json()).toEqual({
    removed: 3,
  });
});

test('a write can demand that nothing is there, and a digest', async () => {
  await using world = await World.start();
  const path = await world.sandbox();
  const put = (query: string) => world.fetch(`${path}/files?path=/f${query}`, { method: 'PUT', body: 'x' });
  const wrong = await put(`&sha256=${'0'.repeat(64)}`);
  expect(wrong.status).toBe(400);
  expect(await wrong.json()).toMatchObject({ code: 'digest_mismatch' });
  expect((await world.fetch(`${path}/files?path=/f`)).status).toBe(404);
  expect((await put('&ifAbsent=true&mode=000')).status).toBe(200);
  expect((await put('&ifAbsent=true')).status).toBe(409);
});

test('extended attributes', async () => {
  await using world = await World.start();
  const path = await world.sandbox();
  await world.fetch(`${path}/files?path=/f`, { method: 'PUT', body: 'x' });
  const set = await world.fetch(`${path}/files/xattr`, json('PUT', { path: '/f', name: 'user.a', value: 'AP8=' }));
  expect(set.status).toBe(204);
  expect(await (await world.fetch(`${path}/files/xattrs?path=/f`)).json()).toEqual({
    attributes: [{ name: 'user.a', nameBase64: null }],
  });
  const one = `${path}/files/xattr?path=/f&name=user.a`;
  expect(await (await world.fetch(one)).json()).toEqual({ value: 'AP8=' });
  expect((await world.fetch(one, { method: 'DELETE' })).status).toBe(204);
  expect((await world.fetch(one)).status).toBe(404);
});

test('a watch streams changes and ends with an error', async () => {
  await using world = await World.start();
  const path = await world.sandbox();
  const response = await world.fetch(`${path}/files/watch?path=/&recursive=true`);
  await world.fetch(`${path}/files?path=/d/f`, { method: 'PUT', body: 'x' });
  await world.fetch(`${path}/files/move`, json('POST', { from: '/d/f', to: '/g' }));
  world.useCases.sandboxes.get(path.split('/').at(-1) ?? '')?.files.lose();
  expect(await eventsOf(response)).toMatchObject([
    { type: 'ready' },
    { type: 'created', path: 'd', directory: true },
    { type: 'created', path: 'd/f', directory: false },
    { type: 'moved', from: 'd/f', to: 'g', directory: false },
    { type: 'error', problem: { code: 'vm_lost' } },
  ]);
  expect((await world.fetch(`${path}/files/watch?path=/none`)).status).toBe(404);
});

test('after an upload that was refused in its middle, the connection serves the next call', async () => {
  await using world = await World.start();
  const path = await world.sandbox();
  const head = `Host: localhost\r\nAuthorization: Bearer ${KEY}\r\n`;
  const sizeBytes = 4 * 1024 * 1024;
  const socket = world.raw(
    `PUT ${path}/files?path=/full-later HTTP/1.1\r\n${head}Content-Length: ${sizeBytes}\r\n\r\n`,
  );
  socket.write(Buffer.alloc(sizeBytes));
  socket.write(`GET /v1/sandboxes HTTP/1.1\r\n${head}Connection: close\r\n\r\n`);
  const answers = await wholeAnswer(socket);
  expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 507', 'HTTP/1.1 200']);
});
