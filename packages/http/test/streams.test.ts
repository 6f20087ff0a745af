import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { eventsOf, KEY, until, World, wholeAnswer } from './world.ts';

const MIB = 1024 * 1024;

async function started(world: World, command: string, signal?: AbortSignal): Promise<Response> {
  const path = await world.sandbox();
  const headers = { 'content-type': 'application/json' };
  const init = { method: 'POST', body: JSON.stringify({ command }), headers };
  return world.fetch(`${path}/exec`, signal === undefined ? init : { ...init, signal });
}

describe('events of a command', () => {
  test('start, output and exit', async () => {
    await using world = await World.start();
    const response = await started(world, 'exit 3');
    expect(response.headers.get('content-type')).toBe('application/x-ndjson');
    expect(await eventsOf(response)).toMatchObject([
      { type: 'started', pid: 42 },
      { type: 'stderr', data: btoa('bad\n') },
      { type: 'exited', exitCode: 3, signal: null, timedOut: false },
    ]);
  });

  test('a signal has its name', async () => {
    await using world = await World.start();
    const events = await eventsOf(await started(world, 'killed'));
    expect(events.at(-1)).toEqual({
      type: 'exited',
      exitCode: null,
      signal: 'SIGKILL',
      timedOut: true,
      oom: true,
    });
  });

  test('what fails before the start is a problem with its status', async () => {
    await using world = await World.start();
    const response = await started(world, 'nonsense');
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 'command_not_started' });
  });

  test.each([
    ['fail vm_lost', 'vm_lost'],
    ['bug', 'internal'],
    ['cut', 'link_lost'],
  ])('a stream that ends by "%s" ends with the error %s', async (command, code) => {
    await using world = await World.start();
    const response = await started(world, command);
    const text = await response.text();
    expect(text).not.toContain('secret');
    const last = JSON.parse(text.trimEnd().split('\n').at(-1) ?? '');
    expect(last).toMatchObject({ type: 'error', problem: { code, requestId: response.headers.get('x-request-id') } });
  });

  test('a quiet command is kept alive by empty lines', async () => {
    await using world = await World.start({ times: { heartbeatMs: 10 } });
    const text = await (await started(world, 'quiet 100')).text();
    expect(text).toMatch(/\n\n\n/);
    expect(text).toContain('"exited"');
  });

  test('neither or both of command and argv are refused', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    for (const body of [{}, { command: 'a', argv: ['a'] }, { argv: [] }, { argv: [''] }, { command: 'a\0b' }]) {
      expect((await world.post(`${path}/exec`, body)).status).toBe(400);
    }
  });
});

describe('processes', () => {
  const processId = 'prc_0123456789abcdef';

  test('are started, and attached to from an offset', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    const startedProcess = await world.post(`${path}/processes`, { command: 'quiet 60000' });
    expect(startedProcess.status).toBe(201);
    expect(await startedProcess.json()).toMatchObject({ pid: 42 });
    const stream = await world.fetch(`${path}/processes/${processId}/stream?stdoutOffset=45&stderrOffset=3`);
    expect(await eventsOf(stream)).toMatchObject([
      { type: 'started', processId },
      { type: 'lost', stream: 'stderr', offset: 3, sizeBytes: 7 },
      { type: 'stdout', offset: 45, data: btoa('56789') },
      { type: 'stdout', offset: 50, data: '' },
      { type: 'exited' },
    ]);
    for (const query of ['stdoutOffset=-1', 'stdoutOffset=x', 'from=1']) {
      expect((await world.fetch(`${path}/processes/${processId}/stream?${query}`)).status).toBe(400);
    }
  });

  test('take input as bytes, and another size of their terminal', async () => {
    await using world = await World.start();
    const path = `${await world.sandbox()}/processes/${processId}`;
    const put = await world.fetch(`${path}/input?offset=7&eof=true`, { method: 'POST', body: Buffer.from('ab\0\xff') });
    expect(await put.json()).toEqual({ acceptedBytes: 12 });
    expect((await world.fetch(`${path}/input?eof=1`, { method: 'POST', body: 'x' })).status).toBe(400);
    expect((await world.post(`${path}/resize`, { cols: 100, rows: 40 })).status).toBe(204);
    expect((await world.post(`${path}/resize`, { cols: 0, rows: 40 })).status).toBe(400);
    expect(world.useCases.sizes).toEqual([[100, 40]]);
  });

  test('are listed, the ended ones when asked for', async () => {
    await using world = await World.start();
    const path = `${await world.sandbox()}/processes`;
    expect(await (await world.fetch(path)).json()).toMatchObject({
      processes: [{ cwd: '/', startedAt: '2023-11-14T22:13:20.000Z', end: null }],
    });
    expect(await (await world.fetch(`${path}?ended=true`)).json()).toMatchObject({
      processes: [{ end: null }, { end: { exitCode: null, signal: 'SIGKILL', timedOut: true, oom: false } }],
    });
  });
});

describe('readers that are slow or gone', () => {
  test('a client that vanishes in mid-stream ends the stream', async () => {
    await using world = await World.start();
    const controller = new AbortController();
    const response = await started(world, 'endless', controller.signal);
    await response.body?.getReader().read();
    controller.abort();
    await until(() => world.useCases.seen.ended === 1);
  });

  test('a client that vanishes while nothing comes ends the stream', async () => {
    await using world = await World.start();
    const controller = new AbortController();
    const response = await started(world, 'quiet 60000', controller.signal);
    expect(response.status).toBe(200);
    controller.abort();
    await until(() => world.useCases.seen.aborted === 1);
  });

  test('signs of life to a client that has vanished harm nobody', async () => {
    await using world = await World.start({ times: { heartbeatMs: 5 } });
    const controller = new AbortController();
    await started(world, 'stubborn', controller.signal);
    controller.abort();
    await until(() => world.log.some((line) => line.includes('"complete":false')));
    // The command ends only now; the server has gone on.
    await new Promise((resolve) => setTimeout(resolve, 250));
    expect((await world.fetch('/v1/sandboxes')).status).toBe(200);
  });

  test('a reader that does not read stops the source, with bounded memory', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    const body = JSON.stringify({ command: 'endless' });
    const socket = world.raw(
      `POST ${path}/exec HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${KEY}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    socket.pause();
    await until(() => world.useCases.seen.produced > 0);
    let before = -1;
    await until(() => {
      const same = world.useCases.seen.produced === before;
      before = world.useCases.seen.produced;
      return same;
    });
    // What the kernel's socket buffers hold, and no more.
    expect(world.useCases.seen.produced).toBeLessThan(32 * MIB);
    socket.destroy();
    await until(() => world.useCases.seen.ended === 1);
  });

  test('a long output is made no faster than it is read', async () => {
    await using world = await World.start();
    const response = await started(world, 'much 300');
    let readBytes = 0;
    let mostAhead = 0;
    for await (const chunk of response.body ?? []) {
      readBytes += chunk.length;
      // What is read is base64: four bytes for three.
      mostAhead = Math.max(mostAhead, world.useCases.seen.produced - (readBytes * 3) / 4);
    }
    expect(readBytes).toBeGreaterThan(300 * MIB);
    // Between them lie buffers of sockets and streams.
    expect(mostAhead).toBeLessThan(32 * MIB);
    // A machine that does other things too takes its time for so much text.
  }, 90_000);

  test('a download that is left ends its source', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    const controller = new AbortController();
    const response = await world.fetch(`${path}/files?path=/endless`, { signal: controller.signal });
    await response.body?.getReader().read();
    controller.abort();
    await until(() => world.useCases.seen.ended === 1);
  });
});

describe('files', () => {
  test('come back as they were put', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    const bytes = Buffer.alloc(3 * MIB + 17, 'odd bytes \0\xff');
    const url = `${path}/files?path=${encodeURIComponent('/a b+ü%/ß')}`;
    const put = await world.fetch(`${url}&mode=750`, { method: 'PUT', body: bytes });
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    expect(await put.json()).toEqual({ path: '/a b+ü%/ß', pathBase64: null, sizeBytes: bytes.length, sha256 });
    const got = await world.fetch(url);
    expect(Object.fromEntries(got.headers)).toMatchObject({
      'content-length': String(bytes.length),
      'x-space-file-mode': '0750',
      'x-space-file-uid': '1000',
      'content-disposition': 'attachment',
      'x-content-type-options': 'nosniff',
    });
    expect(Buffer.from(await got.arrayBuffer()).equals(bytes)).toBe(true);
    expect(await (await world.fetch(url.replace('/files', '/files/stat'))).json()).toMatchObject({ mode: '0750' });
    const head = await world.fetch(url, { method: 'HEAD' });
    expect(head.status).toBe(200);
    expect(Object.fromEntries(head.headers)).toMatchObject({
      'content-length': String(bytes.length),
      'accept-ranges': 'bytes',
      'x-space-file-mode': '0750',
    });
    expect((await world.fetch(`${path}/files?path=/none`, { method: 'HEAD' })).status).toBe(404);
    expect((await world.fetch(`${path}/files?path=/`, { method: 'HEAD' })).status).toBe(409);
    const directory = encodeURIComponent('/a b+ü%');
    expect(await eventsOf(await world.fetch(`${path}/files/list?path=${directory}`))).toMatchObject([
      { type: 'entry', entry: { name: 'ß' } },
      { type: 'end' },
    ]);
    expect((await world.fetch(`${path}/files/list?path=/missing`)).status).toBe(404);
  });

  test.each([
    ['bytes=2-4', '', 206, 'cde', 'bytes 2-4/10'],
    ['bytes=8-99', '', 206, 'ij', 'bytes 8-9/10'],
    ['bytes=7-', '', 206, 'hij', 'bytes 7-9/10'],
    ['bytes=-3', '', 206, 'hij', 'bytes 7-9/10'],
    ['bytes=-99', '', 206, 'abcdefghij', 'bytes 0-9/10'],
    ['bytes=10-', '', 416, undefined, 'bytes */10'],
    ['bytes=-0', '', 416, undefined, 'bytes */10'],
    ['bytes=0-1,4-5', '', 200, 'abcdefghij', null],
    ['lines=1-2', '', 200, 'abcdefghij', null],
    [undefined, '&offset=2&length=3', 200, 'cde', null],
    [undefined, '&offset=50', 200, '', null],
    ['bytes=1-2', '&offset=2', 400, undefined, null],
  ])('range %s with query "%s" gets %i', async (range, query, status, text, contentRange) => {
    await using world = await World.start();
    const path = await world.sandbox();
    await world.fetch(`${path}/files?path=/f`, { method: 'PUT', body: 'abcdefghij' });
    const response = await world.fetch(`${path}/files?path=/f${query}`, {
      headers: range === undefined ? {} : { range },
    });
    expect(response.status).toBe(status);
    expect(response.headers.get('content-range')).toBe(contentRange);
    if (text !== undefined) {
      expect(response.headers.get('content-length')).toBe(String(text.length));
      expect(await response.text()).toBe(text);
    }
  });

  test('a file of the kernel has content though its size is 0', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    expect(await (await world.fetch(`${path}/files?path=/proc/x`)).text()).toBe('from the kernel');
  });

  test('a body that ends too early is broken off, not passed for whole', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    const read = async () => (await world.fetch(`${path}/files?path=/broken`)).arrayBuffer();
    await expect(read()).rejects.toThrow();
  });

  test('an upload whose client vanishes changes nothing', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    const socket = world.raw(
      `PUT ${path}/files?path=/f HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: 100\r\n\r\nabc`,
    );
    await until(() => socket.bytesWritten > 100);
    setTimeout(() => socket.destroy(), 50);
    await until(() => world.useCases.seen.writeFailed === 1);
    expect((await world.fetch(`${path}/files?path=/f`)).status).toBe(404);
  });

  test('an upload that stalls is given up', async () => {
    await using world = await World.start({ times: { uploadIdleMs: 50 } });
    const path = await world.sandbox();
    const socket = world.raw(
      `PUT ${path}/files?path=/f HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${KEY}\r\n` +
        'Connection: close\r\nContent-Length: 100\r\n\r\nabc',
    );
    expect(await wholeAnswer(socket)).toMatch(/^HTTP\/1.1 408 .*request_too_slow/s);
    expect(world.useCases.seen.writeFailed).toBe(1);
  });

  test('an upload that fails half-way is told why, though its body is not read', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    const response = await world.fetch(`${path}/files?path=/full`, { method: 'PUT', body: Buffer.alloc(8 * MIB) });
    expect(response.status).toBe(507);
    expect(await response.json()).toMatchObject({ code: 'guest_full' });
  });

  test('an upload of 300 MiB takes flat memory', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    const chunk = Buffer.alloc(MIB, 7);
    let left = 300;
    let peak = 0;
    const body = new ReadableStream({
      pull: (controller) => {
        left -= 1;
        peak = Math.max(peak, process.memoryUsage().rss);
        if (left < 0) controller.close();
        else controller.enqueue(chunk);
      },
    });
    const before = process.memoryUsage().rss;
    const init = { method: 'PUT', body, duplex: 'half' } as const;
    const response = await world.fetch(`${path}/files?path=/dev/null`, init);
    expect(await response.json()).toMatchObject({ sizeBytes: 300 * MIB });
    expect(peak - before).toBeLessThan(200 * MIB);
  });

  test('a body where none is taken, and an encoded one, are refused', async () => {
    await using world = await World.start();
    const path = await world.sandbox();
    expect((await world.fetch(path, { method: 'DELETE', body: 'x' })).status).toBe(400);
    const headers = { 'content-encoding': 'gzip' };
    expect((await world.fetch(`${path}/files?path=/f`, { method: 'PUT', body: 'x', headers })).status).toBe(415);
  });
});

describe('closing', () => {
  test('waits for calls, then ends streams with a problem, within its bound', async () => {
    const world = await World.start({ times: { closeGraceMs: 50 } });
    const response = await started(world, 'quiet 60000');
    const startMs = performance.now();
    const [events] = await Promise.all([eventsOf(response), world.app.close()]);
    expect(events.at(-1)).toMatchObject({ type: 'error', problem: { code: 'unavailable' } });
    expect(performance.now() - startMs).toBeLessThan(3000);
  });

  test('a call that ends in time gets its answer', async () => {
    const world = await World.start({ times: { closeGraceMs: 2000 } });
    world.useCases.createMs = 100;
    const answer = world.post('/v1/sandboxes', {});
    await until(() => world.app.server.listening);
    await new Promise((resolve) => setTimeout(resolve, 30));
    await world.app.close();
    expect((await answer).status).toBe(201);
  });
});
