/** Many connections and slow ones, from one address: what they cost has a limit, and others are served meanwhile. */
import { connect, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { everything, PortsWorld, until } from './world.ts';

/** All of loopback is ours, so that there are several addresses. */
const FLOODER = '127.0.0.2';
const MOST_OF_ONE = 2048;
const FLOOD = process.env['SPACE_FULL'] === '1' ? 10_000 : 3_000;
const MIB = 2 ** 20;

class Flood {
  readonly sockets: Socket[] = [];
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  get open(): number {
    return this.sockets.filter((socket) => !socket.destroyed && !socket.connecting).length;
  }

  /** Opens so many more, a hundred at a time; each sends what is given, or nothing. */
  async rise(count: number, bytes: (index: number) => string): Promise<void> {
    for (let done = 0; done < count; done += 100) {
      const wave = Array.from({ length: Math.min(100, count - done) }, (_, index) => this.#one(bytes(done + index)));
      await Promise.all(wave);
    }
  }

  async #one(bytes: string): Promise<void> {
    const socket = connect({ port: this.#port, host: '127.0.0.1', localAddress: FLOODER });
    this.sockets.push(socket);
    await new Promise<void>((resolve) => {
      socket.once('error', () => resolve()).once('close', () => resolve());
      socket.once('connect', () => {
        if (bytes !== '') socket.write(bytes);
        resolve();
      });
    });
    socket.on('error', () => undefined).resume();
  }

  [Symbol.dispose](): void {
    for (const socket of this.sockets) socket.destroy();
  }
}

it('a flood of connections from one address is bounded, costs little memory, and leaves room for others', {
  timeout: 180_000,
}, async () => {
  await using world = await PortsWorld.start();
  let reached = 0;
  const port = await world.serve((_, response) => {
    reached += 1;
    response.end('served');
  });
  const visit = `GET / HTTP/1.1\r\nHost: ${world.hostOf(port)}\r\nX-Space-Key: ${world.operatorKey}\r\n\r\n`;
  // Silent ones, halves of heads, strangers who are refused, and visitors who stay.
  const kinds = ['', visit.slice(0, 40), visit.replace(world.operatorKey, 'nobody'), visit];
  using flood = new Flood(world.apiPort);
  await flood.rise(MOST_OF_ONE, (index) => kinds[index % kinds.length] ?? '');
  await until(() => reached >= MOST_OF_ONE / kinds.length, 60_000);
  const before = process.memoryUsage().rss;
  await flood.rise(FLOOD - MOST_OF_ONE, (index) => kinds[index % kinds.length] ?? '');
  await until(() => flood.open <= MOST_OF_ONE, 60_000);
  const begunAt = performance.now();
  expect(await world.visit(port)).toMatchObject({ status: 200, text: 'served' });
  expect((await world.call(world.operatorKey, 'GET', '/v1/sandboxes/box')).status).toBe(200);
  const servedMs = performance.now() - begunAt;
  const grownMib = Math.round((process.memoryUsage().rss - before) / MIB);
  console.log(
    `${FLOOD} connections: ${flood.open} stay, +${grownMib} MiB for the others; served in ${Math.round(servedMs)} ms`,
  );
  expect(grownMib).toBeLessThan(100);
  expect(servedMs).toBeLessThan(5_000);
  // Room comes back with those that leave.
  for (const socket of flood.sockets) socket.destroy();
  await expect.poll(() => visitFrom(world, port, FLOODER), { timeout: 20_000 }).toContain('served');
});

it('heads that come in drops are cut, for the API and for ports, and reach no sandbox', async () => {
  await using world = await PortsWorld.start({ times: { headersMs: 900 } });
  let reached = 0;
  const port = await world.serveTcp(() => {
    reached += 1;
  });
  const heads = [
    `GET / HTTP/1.1\r\nHost: ${world.hostOf(port)}\r\n`,
    'GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n',
  ];
  const drops = Array.from({ length: 40 }, (_, index) => world.raw(heads[index % 2] ?? ''));
  const dripping = setInterval(() => {
    for (const socket of drops) if (socket.writable) socket.write('X-More: 1\r\n');
  }, 100);
  try {
    const ends = drops.map((socket) => everything(socket));
    expect((await world.call(world.operatorKey, 'GET', '/v1/sandboxes/box')).status).toBe(200);
    for (const end of await Promise.all(ends)) expect(end).toMatch(/^HTTP\/1\.1 408 /);
  } finally {
    clearInterval(dripping);
  }
  expect(reached).toBe(0);
});

async function visitFrom(world: PortsWorld, port: number, localAddress: string): Promise<string> {
  const socket = connect({ port: world.apiPort, host: '127.0.0.1', localAddress });
  socket.write(
    `GET / HTTP/1.1\r\nHost: ${world.hostOf(port)}\r\nX-Space-Key: ${world.operatorKey}\r\nConnection: close\r\n\r\n`,
  );
  return everything(socket);
}
