/** What the SDKs hide: the messages as they are on the wire. */
import { connect } from 'node:net';
import { gunzipSync } from 'node:zlib';
import type { SandboxId } from '@space/core';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createEnvdWorld, type EnvdWorld } from './envd-world.ts';

let world: EnvdWorld;
beforeAll(async () => {
  world = await createEnvdWorld({
    flood: ({ print }) => {
      print('x'.repeat(200_000));
      return 0;
    },
  });
});
afterAll(() => world[Symbol.asyncDispose]());

interface Envelope {
  readonly flag: number;
  readonly message: Record<string, never> & { event?: Record<string, Record<string, unknown>>; error?: unknown };
}

function enveloped(...messages: unknown[]): Buffer {
  return Buffer.concat(
    messages.flatMap((message) => {
      const body = Buffer.from(JSON.stringify(message));
      const head = Buffer.alloc(5);
      head.writeUInt32BE(body.length, 1);
      return [head, body];
    }),
  );
}

function open(method: string, message: unknown, headers: Record<string, string> = {}, signal?: AbortSignal) {
  return fetch(`${world.baseUrl}/${method}`, {
    method: 'POST',
    headers: { 'content-type': 'application/connect+json', 'connect-protocol-version': '1', ...headers },
    body: enveloped(message),
    ...(signal && { signal }),
  });
}

async function* envelopes(response: Response): AsyncGenerator<Envelope> {
  let left = Buffer.alloc(0);
  for await (const bytes of response.body ?? []) {
    left = Buffer.concat([left, bytes]);
    while (left.length >= 5 && left.length >= 5 + left.readUInt32BE(1)) {
      const end = 5 + left.readUInt32BE(1);
      yield { flag: left[0] ?? 0, message: JSON.parse(left.subarray(5, end).toString()) };
      left = left.subarray(end);
    }
  }
}

async function unary(method: string, message: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(`${world.baseUrl}/${method}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(message),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

const bash = (line: string) => ({ process: { cmd: '/bin/bash', args: ['-l', '-c', line] } });
const kinds = (all: readonly Envelope[]) => all.map(({ message }) => Object.keys(message.event ?? message)[0]);

async function begin(line: string, more: Record<string, unknown> = {}, headers: Record<string, string> = {}) {
  const left = new AbortController();
  const response = await open('process.Process/Start', { ...bash(line), ...more }, headers, left.signal);
  const events = envelopes(response);
  const first = await events.next();
  return { response, events, left, pid: Number(first.value?.message.event?.['start']?.['pid']) };
}

it('a stream of a command: start, data at once, end, and an end of the stream', async () => {
  const { response, events, pid } = await begin('echo hello; cat', { stdin: true });
  expect(response.headers.get('content-type')).toBe('application/connect+json');
  expect(pid).toBeGreaterThan(0);
  // It still runs, so nothing held this back.
  const data = (await events.next()).value?.message.event?.['data'];
  expect(Buffer.from(String(data?.['stdout']), 'base64').toString()).toBe('hello\n');
  expect(await unary('process.Process/CloseStdin', { process: { pid } })).toEqual({ status: 200, body: {} });
  expect((await events.next()).value).toMatchObject({
    message: { event: { end: { exited: true, status: 'exit status 0' } } },
  });
  expect((await events.next()).value).toEqual({ flag: 2, message: {} });
  expect((await events.next()).done).toBe(true);
});

it('output comes in pieces of at most 32 KiB, all of it', async () => {
  const all = await Array.fromAsync(envelopes(await open('process.Process/Start', { process: { cmd: 'flood' } })));
  const sizes = all.flatMap(({ message }) => {
    const data = message.event?.['data']?.['stdout'];
    return data === undefined ? [] : [Buffer.from(String(data), 'base64').length];
  });
  expect(Math.max(...sizes)).toBeLessThanOrEqual(32 * 1024);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(200_000);
});

it('a command that says nothing gives signs of life, as often as was asked for', async () => {
  const { events, left } = await begin('sleep 100', {}, { 'keepalive-ping-interval': '1' });
  expect((await events.next()).value?.message.event).toEqual({ keepalive: {} });
  left.abort();
});

it('at its deadline a command is killed, and the stream ends with deadline_exceeded', async () => {
  const { events, pid } = await begin('sleep 100', {}, { 'connect-timeout-ms': '200' });
  const last = (await Array.fromAsync(events)).at(-1);
  expect(last).toMatchObject({ flag: 2, message: { error: { code: 'deadline_exceeded' } } });
  const { status, body } = await unary('process.Process/SendSignal', { process: { pid }, signal: 'SIGNAL_SIGKILL' });
  expect({ status, body }).toEqual({
    status: 404,
    body: { code: 'not_found', message: `process with pid ${pid} not found` },
  });
});

it('who leaves, or waits no longer, leaves the command running', async () => {
  const { pid, left } = await begin('sleep 100');
  left.abort();
  const connected = await open('process.Process/Connect', { process: { pid } }, { 'connect-timeout-ms': '100' });
  const all = await Array.fromAsync(envelopes(connected));
  expect(kinds(all)).toEqual(['start', 'error']);
  expect(all.at(-1)?.message.error).toMatchObject({ code: 'deadline_exceeded' });
  const { body } = await unary('process.Process/List', {});
  expect(body['processes']).toContainEqual(expect.objectContaining({ pid }));
  expect((await unary('process.Process/SendSignal', { process: { pid }, signal: 'SIGNAL_SIGTERM' })).status).toBe(200);
});

it('a command is known by its tag, and listed with what it was given', async () => {
  const envs = { ONE: '1' };
  const line = { process: { cmd: '/bin/bash', args: ['-l', '-c', 'sleep 100'], envs, cwd: '/home' }, tag: 'mine' };
  const left = new AbortController();
  const first = await envelopes(await open('process.Process/Start', line, {}, left.signal)).next();
  const pid = first.value?.message.event?.['start']?.['pid'];
  left.abort();
  const { body } = await unary('process.Process/List', {});
  expect(body['processes']).toContainEqual({ config: line.process, pid, tag: 'mine' });
  const signal = 'SIGNAL_SIGKILL';
  expect((await unary('process.Process/SendSignal', { process: { tag: 'mine' }, signal })).status).toBe(200);
  const gone = await unary('process.Process/SendSignal', { process: { tag: 'mine' }, signal });
  expect(gone.body['message']).toBe('process with tag mine not found');
  const long = { ...line, process: { ...line.process, envs: { LONG: 'x'.repeat(5000) } }, tag: 'long' };
  await envelopes(await open('process.Process/Start', long, {}, AbortSignal.timeout(5_000))).next();
  expect((await unary('process.Process/SendSignal', { process: { tag: 'long' }, signal })).status).toBe(200);
});

it('input is a pipe where nothing is said, and none where that is said', async () => {
  const send = (pid: number, input: unknown) => unary('process.Process/SendInput', { process: { pid }, input });
  const stdin = Buffer.from('in\n').toString('base64');
  const piped = await begin('cat');
  expect((await send(piped.pid, { stdin })).status).toBe(200);
  expect((await piped.events.next()).value?.message.event?.['data']).toEqual({ stdout: stdin });
  expect(await send(piped.pid, { pty: stdin })).toMatchObject({ status: 500, body: { code: 'internal' } });
  expect(await send(piped.pid, {})).toMatchObject({ status: 501, body: { code: 'unimplemented' } });
  piped.left.abort();
  const none = await begin('sleep 100', { stdin: false });
  expect(await send(none.pid, { stdin })).toMatchObject({ status: 500, body: { code: 'internal' } });
  none.left.abort();
});

it('input comes as a stream, too', async () => {
  const { pid, events } = await begin('cat', { stdin: true });
  const data = (text: string) => ({ data: { input: { stdin: Buffer.from(text).toString('base64') } } });
  const response = await fetch(`${world.baseUrl}/process.Process/StreamInput`, {
    method: 'POST',
    headers: { 'content-type': 'application/connect+json' },
    body: enveloped({ start: { process: { pid } } }, data('one '), { keepalive: {} }, data('two')),
  });
  expect(await Array.fromAsync(envelopes(response))).toEqual([
    { flag: 0, message: {} },
    { flag: 2, message: {} },
  ]);
  await unary('process.Process/CloseStdin', { process: { pid } });
  const all = await Array.fromAsync(events);
  const text = all
    .map(({ message }) => Buffer.from(String(message.event?.['data']?.['stdout'] ?? ''), 'base64'))
    .join('');
  expect(text).toBe('one two');
});

it('what cannot be started is said before anything else', async () => {
  const errorOf = async (message: unknown, headers = {}) =>
    (await Array.fromAsync(envelopes(await open('process.Process/Start', message, headers))))[0]?.message.error;
  const nobody = { authorization: `Basic ${Buffer.from('no body:').toString('base64')}` };
  expect(await errorOf(bash('true'), nobody)).toEqual({
    code: 'unauthenticated',
    message: "invalid username: 'no body'",
  });
  expect(await errorOf({ process: { cmd: 'none-such' } })).toMatchObject({ code: 'invalid_argument' });
  expect(await errorOf({})).toMatchObject({ code: 'invalid_argument' });
  expect(await errorOf({ ...bash('true'), pty: { size: { cols: 0, rows: 1 } } })).toMatchObject({
    code: 'invalid_argument',
  });
});

it('a message that is too large, or no message, is refused', async () => {
  const large = await unary('process.Process/SendInput', {
    process: { pid: 1 },
    input: { stdin: 'A'.repeat(9_000_000) },
  });
  expect(large).toMatchObject({ status: 429, body: { code: 'resource_exhausted' } });
  const response = await fetch(`${world.baseUrl}/process.Process/List`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{',
  });
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ code: 'invalid_argument' });
});

it('a request whose Host is none is refused, and harms nobody', async () => {
  const socket = connect(Number(new URL(world.baseUrl).port), '127.0.0.1');
  socket.end(
    'POST /process.Process/List HTTP/1.1\r\nHost: a b\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}',
  );
  const answer = Buffer.concat(await Array.fromAsync(socket)).toString();
  expect(answer).toMatch(/^HTTP\/1.1 400 /);
  expect((await unary('process.Process/List', {})).status).toBe(200);
});

it('a watch that is asked about gives each change once, until it is removed', async () => {
  await unary('filesystem.Filesystem/MakeDir', { path: '/home/user/polled' });
  const created = await unary('filesystem.Filesystem/CreateWatcher', { path: 'polled', includeEntry: true });
  const { watcherId } = created.body;
  await unary('filesystem.Filesystem/MakeDir', { path: 'polled/a' });
  const events = () => unary('filesystem.Filesystem/GetWatcherEvents', { watcherId });
  const seen: unknown[] = [];
  await expect
    .poll(async () => seen.push(...(((await events()).body['events'] as unknown[] | undefined) ?? [])))
    // It is made, and given to the user.
    .toBe(2);
  const entry = { path: '/home/user/polled/a', type: 'FILE_TYPE_DIRECTORY' };
  expect(seen).toMatchObject([
    { name: 'a', type: 'EVENT_TYPE_CREATE', entry },
    { name: 'a', type: 'EVENT_TYPE_CHMOD', entry },
  ]);
  expect(await events()).toEqual({ status: 200, body: {} });
  expect((await unary('filesystem.Filesystem/RemoveWatcher', { watcherId })).status).toBe(200);
  expect(await events()).toMatchObject({ status: 404, body: { code: 'not_found' } });
});

it('a watch whose answer nobody was there to get ends, and one that is never asked about gives its place up', async () => {
  await unary('filesystem.Filesystem/MakeDir', { path: '/home/user/many' });
  const create = () => unary('filesystem.Filesystem/CreateWatcher', { path: 'many' });
  const made: string[] = [];
  for (let i = 0; i < 16; i++) made.push(String((await create()).body['watcherId']));
  expect((await create()).status).toBe(429);
  const events = (watcherId: string | undefined) => unary('filesystem.Filesystem/GetWatcherEvents', { watcherId });
  const [asked, lost] = made;
  expect((await events(asked)).status).toBe(200);
  const later = performance.now() + 61_000;
  const now = vi.spyOn(performance, 'now').mockReturnValue(later);
  try {
    made.push(String((await create()).body['watcherId']));
  } finally {
    now.mockRestore();
  }
  expect((await events(asked)).status).toBe(200);
  expect((await events(lost)).status).toBe(404);
  for (const watcherId of made) await unary('filesystem.Filesystem/RemoveWatcher', { watcherId });
});

it('a part of a file, and the whole compressed', async () => {
  const text = 'abcdefghij';
  const put = { method: 'POST', headers: { 'content-type': 'application/octet-stream' }, body: text };
  const written = await fetch(`${world.baseUrl}/files?path=part.txt`, put);
  expect(await written.json()).toEqual([{ path: '/home/user/part.txt', name: 'part.txt', type: 'file' }]);
  const get = (headers: Record<string, string>, method = 'GET') =>
    fetch(`${world.baseUrl}/files?path=part.txt`, { method, headers: { 'accept-encoding': 'identity', ...headers } });
  const part = await get({ range: 'bytes=2-4' });
  expect([part.status, part.headers.get('content-range'), await part.text()]).toEqual([206, 'bytes 2-4/10', 'cde']);
  expect(await (await get({ range: 'bytes=-3' })).text()).toBe('hij');
  const beyond = await get({ range: 'bytes=20-' });
  expect([beyond.status, beyond.headers.get('content-range')]).toEqual([416, 'bytes */10']);
  expect((await get({})).headers.get('content-length')).toBe('10');
  expect((await get({}, 'HEAD')).headers.get('content-length')).toBe('10');
  expect((await get({ 'accept-encoding': 'br, identity;q=0' })).status).toBe(406);
  const socket = connect(Number(new URL(world.baseUrl).port), '127.0.0.1');
  socket.write('GET /files?path=part.txt HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n');
  const raw = Buffer.concat(await Array.fromAsync(socket));
  expect(raw.toString()).toContain('content-encoding: gzip');
  const chunked = raw.subarray(raw.indexOf('\r\n\r\n') + 4);
  const parts: Buffer[] = [];
  for (let at = 0; ; ) {
    const lineEnd = chunked.indexOf('\r\n', at);
    const size = Number.parseInt(chunked.subarray(at, lineEnd).toString(), 16);
    if (size === 0) break;
    parts.push(chunked.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
  expect(gunzipSync(Buffer.concat(parts)).toString()).toBe(text);
});

it('an upload that cannot be is refused with its reason', async () => {
  const upload = async (path: string, body: FormData | string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${world.baseUrl}/files${path}`, { method: 'POST', headers, body });
    return [response.status, ((await response.json()) as { message?: string }).message];
  };
  const raw = { 'content-type': 'application/octet-stream' };
  const twice = new FormData();
  for (const content of ['1', '2']) twice.append('file', new Blob([content]), '/tmp/same');
  expect(await upload('', twice)).toEqual([400, "several parts are for the same path '/tmp/same'"]);
  expect(await upload('', 'x', raw)).toMatchObject([400, expect.stringContaining('path is required')]);
  expect(await upload('?path=x', 'x', { 'content-type': 'text/plain' })).toMatchObject([400, expect.any(String)]);
  expect(await upload('?path=x', 'x', { ...raw, 'content-encoding': 'br' })).toMatchObject([415, expect.any(String)]);
  expect(await upload('?path=x', 'no gzip', { ...raw, 'content-encoding': 'gzip' })).toMatchObject([
    400,
    expect.any(String),
  ]);
  expect(await upload('?path=x', 'x', { ...raw, [`x-metadata-${'k'.repeat(247)}`]: 'v' })).toMatchObject([
    400,
    expect.any(String),
  ]);
  expect(await upload('?path=x', 'x', { ...raw, 'x-metadata-k': 'v'.repeat(4096) })).toMatchObject([
    400,
    expect.any(String),
  ]);
  expect(await upload('?path=x&username=nobody-here', 'x', raw)).toEqual([401, "invalid username: 'nobody-here'"]);
  expect((await fetch(`${world.baseUrl}/files?path=x`)).status).toBe(404);
});

it('an upload that is cut short writes nothing', async () => {
  const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="cut.txt"\r\n\r\nhalf of it';
  const response = await fetch(`${world.baseUrl}/files`, {
    method: 'POST',
    headers: { 'content-type': 'multipart/form-data; boundary=b' },
    body: part,
  });
  expect(response.status).toBe(400);
  const port = Number(new URL(world.baseUrl).port);
  for (const type of ['multipart/form-data; boundary=b', 'application/octet-stream']) {
    const socket = connect(port, '127.0.0.1');
    const head = `POST /files?path=cut.txt HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: 1000\r\n\r\n`;
    await new Promise((resolve) => socket.write(head + part, resolve));
    await expect.poll(() => world.requests).toContain(`POST ${type}`);
    socket.destroy();
    await expect.poll(() => world.requests).not.toContain(`POST ${type}`);
  }
  expect((await fetch(`${world.baseUrl}/files?path=cut.txt`)).status).toBe(404);
});

describe('the name of a part', () => {
  const send = async (filename: Buffer) => {
    const body = Buffer.concat([
      Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; '),
      filename,
      Buffer.from('\r\n\r\ncontent\r\n--b--\r\n'),
    ]);
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    const response = await fetch(`${world.baseUrl}/files`, { method: 'POST', headers, body });
    return { status: response.status, body: (await response.json()) as unknown };
  };

  it('may be given encoded; where there is a plain one, which forms have, it counts', async () => {
    const encoded = `filename*=UTF-8''na%C3%AFve%20%E2%82%AC.txt`;
    const written = (name: string) => ({ status: 200, body: [{ name, path: `/home/user/${name}`, type: 'file' }] });
    expect(await send(Buffer.from(encoded))).toEqual(written('naïve €.txt'));
    expect(await send(Buffer.from(`filename="über.txt"; ${encoded}`))).toEqual(written('über.txt'));
  });

  it('that is not UTF-8 is refused, and writes nothing', async () => {
    const names = [Buffer.from('filename="a\xff.txt"', 'latin1'), Buffer.from(`filename*=UTF-8''a%FF.txt`)];
    for (const name of names) {
      expect(await send(name)).toMatchObject({ status: 400, body: { message: expect.stringContaining('not UTF-8') } });
    }
    expect((await fetch(`${world.baseUrl}/files?path=a%EF%BF%BD.txt`)).status).toBe(404);
  });
});

it('what is for the host alone, or is nothing, is not there', async () => {
  for (const path of ['/init', '/freeze', '/upgrade', '/', '/process.Process/None']) {
    const response = await fetch(`${world.baseUrl}${path}`, { method: 'POST', body: '{}' });
    expect([path, response.status]).toEqual([path, 404]);
  }
});

it('tells what the sandbox has and uses, and its environment', async () => {
  const metrics = (await (await fetch(`${world.baseUrl}/metrics`)).json()) as Record<string, number>;
  expect(metrics).toMatchObject({ cpu_count: 1, mem_total: 512 * 1024 * 1024, disk_total: 8 * 1024 ** 3 });
  expect(Object.keys(metrics)).toHaveLength(10);
  const envs = await (await fetch(`${world.baseUrl}/envs`)).json();
  expect(envs).toEqual({ GIVEN: 'at create', E2B_SANDBOX: 'true', E2B_SANDBOX_ID: 'itest', E2B_TEMPLATE_ID: 'base' });
});

it('what is under way is broken off when the sandbox is said to be gone', async () => {
  const { events } = await begin('sleep 100');
  const next = events.next();
  world.envd.disconnect(world.sandboxId as SandboxId);
  await expect(next).rejects.toThrow('terminated');
});
