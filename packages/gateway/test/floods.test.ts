/** What costs a guest little in HTTP/2 and a server much: each ends its own connection, or waits, and nothing else notices. */
import { once } from 'node:events';
import type { TLSSocket } from 'node:tls';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { allow, World } from './world.ts';

let world: World;
let port: number;
let heard: number;
beforeEach(async () => {
  world = await World.open();
  heard = 0;
  port = await world.serveHttp2('a.test', (stream) => {
    heard++;
    stream.respond({ ':status': 200 });
    stream.end('well');
  });
  await world.allow({ allow: [allow({ host: 'a.test' })] });
});
afterEach(() => world.close());

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const TYPE = { headers: 1, reset: 3, settings: 4, ping: 6, windowUpdate: 8, continuation: 9 } as const;
const END_STREAM = 1;
const END_HEADERS = 4;
/** What the kernel and the streams of the test hold of what is not taken. */
const ON_THE_WAY_BYTES = 8 * 1024 * 1024;
const STILL_MS = 500;
/** As soon as it is clear that it is one. */
const MOST_FRAMES = 200_000;

function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A header in the form that needs no table. */
function literal(name: string, value: string): Buffer {
  const sized = (text: string) => Buffer.concat([Buffer.from([text.length]), Buffer.from(text)]);
  return Buffer.concat([Buffer.from([0]), sized(name), sized(value)]);
}

const request = (): Buffer =>
  Buffer.concat([
    literal(':method', 'GET'),
    literal(':scheme', 'https'),
    literal(':path', '/'),
    literal(':authority', `a.test:${port}`),
  ]);

async function begin(): Promise<TLSSocket> {
  const socket = await world.tls('a.test', port, { protocols: ['h2'] });
  socket.write(Buffer.concat([PREFACE, frame(TYPE.settings, 0, 0)]));
  return socket;
}

/** Sends frames until the connection is closed; how many those were. */
async function pour(socket: TLSSocket, frames: (round: number) => Buffer): Promise<number> {
  const over = new AbortController();
  const closed = once(socket, 'close').then(() => over.abort());
  let round = 0;
  while (!socket.destroyed && round < MOST_FRAMES) {
    if (!socket.write(frames(round++))) {
      await once(socket, 'drain', { signal: over.signal }).catch(() => undefined);
    } else if (round % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  if (!socket.destroyed) throw new Error(`the connection is still open after ${round} rounds`);
  await closed;
  return round;
}

const stream = (round: number): number => 2 * round + 1;
const FLOODS: readonly [string, (round: number) => Buffer][] = [
  [
    'requests that are taken back at once',
    (round) =>
      Buffer.concat([
        frame(TYPE.headers, END_HEADERS | END_STREAM, stream(round), request()),
        frame(TYPE.reset, 0, stream(round), Buffer.from([0, 0, 0, 8])),
      ]),
  ],
  [
    'a head without an end',
    (round) =>
      round === 0
        ? frame(TYPE.headers, END_STREAM, 1, request())
        : frame(TYPE.continuation, 0, 1, literal('x', 'y'.repeat(100))),
  ],
  [
    'a head of empty pieces without an end',
    (round) => (round === 0 ? frame(TYPE.headers, END_STREAM, 1, request()) : frame(TYPE.continuation, 0, 1)),
  ],
  ['frames that are none', (round) => frame(TYPE.windowUpdate, 0, stream(round), Buffer.from([0, 0, 0, 0]))],
];

it.each(FLOODS)('%s end their connection', async (_what, frames) => {
  const socket = await begin();
  socket.resume();
  await pour(socket, frames);
  expect(heard).toBeLessThan(2_000);
  await othersAreServed();
});

it.each([
  ['settings', () => frame(TYPE.settings, 0, 0, Buffer.from([0, 4, 0, 0, 255, 255]))],
  ['pings', () => frame(TYPE.ping, 0, 0, Buffer.alloc(8, 1))],
])('%s whose answers are not read wait with who sends them', async (_what, frames) => {
  const socket = await begin();
  socket.pause();
  const piece = Buffer.concat(Array.from({ length: 100 }, frames));
  let sentBytes = 0;
  for (let isTaken = true; isTaken; ) {
    isTaken = socket.write(piece) || (await drained(socket));
    sentBytes += piece.length;
    if (sentBytes > ON_THE_WAY_BYTES) throw new Error('it takes ever more');
  }
  await othersAreServed();
});

/** Whether it can be written on, soon. */
async function drained(socket: TLSSocket): Promise<boolean> {
  const late = AbortSignal.timeout(STILL_MS);
  return once(socket, 'drain', { signal: late }).then(
    () => true,
    () => false,
  );
}

async function othersAreServed(): Promise<void> {
  const other = await world.http2('a.test', port);
  const asked = other.request({ ':path': '/', ':authority': `a.test:${port}` });
  const [headers] = await once(asked, 'response');
  expect(headers).toMatchObject({ ':status': 200 });
  other.destroy();
}
