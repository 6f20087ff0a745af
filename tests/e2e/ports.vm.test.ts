/** Ports of real microVMs: HTTP, a raw server, wakes by traffic, ends at pauses and rewinds, shares; and how fast bytes pass. */
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Sandbox } from '@space/sdk';
import { FakeEgress } from '@space/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { egressCases } from './egress-cases.ts';
import { makeWorld, type World } from './world.ts';

const egress = new FakeEgress();
let world: World;
let sandbox: Sandbox;
beforeAll(async () => {
  world = await makeWorld(undefined, {}, egress);
  sandbox = await world.create({ idle: { pauseAfterMs: null } });
  await sandbox.files.write('site/index.html', '<h1>hello</h1>');
  await sandbox.files.write('tcp.py', TCP_SERVER);
  await sandbox.start('cd site && exec python3 -m http.server 8000');
  await sandbox.start('exec python3 tcp.py');
  for (const port of [8000, 9002]) await listening(port);
});
afterAll(() => world[Symbol.asyncDispose]());

describe('the way out', () => egressCases(() => ({ world, sandbox, egress })));

async function listening(port: number): Promise<void> {
  const deadline = performance.now() + 60_000;
  const probe = `python3 -c 'import socket; socket.create_connection(("127.0.0.1", ${port})).close()'`;
  while ((await sandbox.run(probe)).exitCode !== 0) {
    if (performance.now() > deadline) throw new Error(`nothing listens on ${port}`);
  }
}

/** On 9000 an echo; on 9001 bytes without end; on 9002 it takes all and then says how many there were. */
const TCP_SERVER = `
import socketserver, threading
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
class Source(socketserver.BaseRequestHandler):
    def handle(self):
        try:
            while True: self.request.sendall(bytes(65536))
        except OSError: pass
class Sink(socketserver.BaseRequestHandler):
    def handle(self):
        count = 0
        while data := self.request.recv(65536): count += len(data)
        self.request.sendall(str(count).encode())
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
servers = [Server(("127.0.0.1", port), handler) for port, handler in ((9000, Echo), (9001, Source), (9002, Sink))]
threads = [threading.Thread(target=server.serve_forever) for server in servers]
for thread in threads: thread.start()
`;

/** A request to a preview, by its own name; the machine's resolver need not know it. */
async function visit(url: string, headers: Record<string, string> = {}) {
  const { host, port, pathname, search } = new URL(url);
  const asked = request({
    host: '127.0.0.1',
    port,
    path: pathname + search,
    headers: { host, ...headers },
    agent: false,
  });
  const answer = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
    asked.once('response', resolve).once('error', reject).end();
  });
  const text = (await Array.fromAsync(answer.setEncoding('utf8'))).join('');
  return { status: answer.statusCode, headers: answer.headers, text };
}

const nextOf = async (socket: Socket) => String(await new Promise((resolve) => socket.once('data', resolve)));
const endOf = (socket: Socket) =>
  new Promise<string>((resolve) => {
    socket.once('error', (error) => resolve('code' in error ? String(error.code) : 'error'));
    socket.once('end', () => resolve('end'));
  });

it('shares a web page for a time, in a browser’s way', async () => {
  const share = await sandbox.ports.share(8000, { name: 'page', expiresInMs: 600_000 });
  const first = await visit(share.url ?? '');
  expect(first.status).toBe(303);
  const cookie = String(first.headers['set-cookie']).split(';')[0] ?? '';
  const url = await sandbox.ports.url(8000);
  expect(await visit(`${url}/`, { cookie })).toMatchObject({ status: 200, text: '<h1>hello</h1>' });
  expect((await visit(`${url}/`)).status).toBe(401);
  await sandbox.ports.revoke(share);
  expect((await visit(`${url}/`, { cookie })).status).toBe(401);
  expect(await sandbox.ports.shares()).toEqual([]);
});

it('forwards a raw port, and says that nothing listens', async () => {
  await using echo = await sandbox.ports.forward(9000);
  const socket = connect(echo.localPort, '127.0.0.1');
  socket.write('ping');
  expect(await nextOf(socket)).toBe('ping');
  socket.destroy();
  const refused = await sandbox.ports.fetch(9, '/');
  expect(refused.status).toBe(502);
  expect(await refused.json()).toMatchObject({ code: 'port_refused' });
});

it('wakes a paused sandbox by traffic, and goes on where it was', async () => {
  await sandbox.pause();
  expect(await (await sandbox.ports.fetch(8000, '/')).text()).toBe('<h1>hello</h1>');
  expect((await sandbox.refresh()).status).toBe('running');
});

it('ends connections at a pause and at a rewind, by a reset, for both sides', async () => {
  await using echo = await sandbox.ports.forward(9000);
  const point = await sandbox.snapshot();
  for (const end of [() => sandbox.pause(), () => sandbox.rewind(point)]) {
    const socket = connect(echo.localPort, '127.0.0.1');
    socket.write('ping');
    expect(await nextOf(socket)).toBe('ping');
    const ended = endOf(socket);
    await end();
    expect(await ended).toBe('ECONNRESET');
    const left = await sandbox.run("ss -Htn state established '( sport = :9000 )' | wc -l");
    expect(left.stdout.trim()).toBe('0');
  }
});

it('leaves no connection of its source in a fork, and commands go on while bytes pour', async () => {
  await using source = await sandbox.ports.forward(9001);
  const socket = connect(source.localPort, '127.0.0.1').on('error', () => undefined);
  let bytes = 0;
  const begun = performance.now();
  socket.on('data', (piece) => {
    bytes += piece.length;
  });
  await expect.poll(() => bytes, { timeout: 60_000 }).toBeGreaterThan(20_000_000);
  const seconds = (performance.now() - begun) / 1_000;
  console.log(`out of the sandbox: ${(bytes / 1e6 / seconds).toFixed(1)} MB/s`);
  const before = performance.now();
  expect((await sandbox.run('echo on')).stdout).toBe('on\n');
  console.log(`a command meanwhile: ${Math.round(performance.now() - before)} ms`);
  const [fork] = await sandbox.fork(1);
  const left = await fork?.run("ss -Htn state established '( sport = :9001 )' | wc -l");
  expect(left?.stdout.trim()).toBe('0');
  await fork?.delete();
  socket.destroy();
});

it('takes a large upload whole', async () => {
  await using sink = await sandbox.ports.forward(9002);
  const socket = connect({ port: sink.localPort, host: '127.0.0.1', allowHalfOpen: true });
  const block = Buffer.alloc(1_000_000, 7);
  const begun = performance.now();
  for (let sent = 0; sent < 20; sent++) {
    if (!socket.write(block)) await new Promise((resolve) => socket.once('drain', resolve));
  }
  socket.end();
  expect(await nextOf(socket)).toBe('20000000');
  console.log(`into the sandbox: ${(20 / ((performance.now() - begun) / 1_000)).toFixed(1)} MB/s`);
});

it('of a server that takes no connection more says so in time, and holds up nothing else', async () => {
  await sandbox.start(`exec python3 -c '${FULL_QUEUE}'`);
  await expect.poll(async () => (await sandbox.run('cat full')).stdout, { timeout: 60_000 }).toBe('full');
  const asked = async () => (await sandbox.ports.fetch(9003, '/')).json() as Promise<{ readonly code: string }>;
  const begunAt = performance.now();
  const waiting = Promise.all(Array.from({ length: 8 }, asked));
  expect(await (await sandbox.ports.fetch(8000, '/')).text()).toBe('<h1>hello</h1>');
  expect((await sandbox.run('echo on')).stdout).toBe('on\n');
  for (const { code } of await waiting) expect(code).toBe('timed_out');
  expect(performance.now() - begunAt).toBeLessThan(30_000);
  const left = await sandbox.run("ss -Htn state syn-sent '( dport = :9003 )' | wc -l");
  expect(left.stdout.trim()).toBe('0');
});

/** Nobody takes what waits in its queue, which it fills by itself. */
const FULL_QUEUE = `
import os, socket, time
server = socket.socket()
server.bind(("127.0.0.1", 9003))
server.listen(0)
waiting = []
try:
    while len(waiting) < 100:
        waiting.append(socket.create_connection(("127.0.0.1", 9003), timeout=1))
except OSError:
    open("full", "w").write("full")
time.sleep(1000000)
`;
