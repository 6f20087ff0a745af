/** Over a real connection of this machine, as a fake guest has them. */
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { FakePorts } from '@space/testkit';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { PortStream } from './port-stream.ts';

const IDLE_MS = 150;
const ports = new FakePorts();
let server: Server;
let served: Promise<Socket>;

beforeEach(async () => {
  server = createServer({ allowHalfOpen: true });
  served = once(server, 'connection').then(([socket]) => socket.on('error', () => undefined));
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterEach(() => server.close());

async function open(): Promise<PortStream> {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('it listens nowhere');
  return new PortStream(await ports.open(address.port), IDLE_MS);
}

it('ends a connection that carries nothing, on both sides', async () => {
  const stream = (await open()).resume();
  const socket = await served;
  const ended = new Promise((resolve) => socket.once('close', resolve));
  await expect(once(stream, 'end')).rejects.toMatchObject({ code: 'timed_out' });
  await ended;
  await expect.poll(() => ports.count).toBe(0);
});

it('leaves one alone that carries something, whichever way', async () => {
  const stream = (await open()).resume();
  const socket = (await served).resume();
  for (const from of [socket, stream, socket, stream, socket, stream]) {
    await sleep(IDLE_MS / 2);
    from.write('x');
  }
  expect(stream.destroyed).toBe(false);
  stream.destroy();
});

it('ends one whose reader takes nothing: what cannot go on carries nothing', async () => {
  const stream = await open();
  const socket = await served;
  const pour = () => {
    while (socket.write(Buffer.alloc(65_536))) {
      // Until it is full.
    }
  };
  socket.on('drain', pour);
  pour();
  stream.once('readable', () => undefined);
  const [error] = await once(stream, 'error');
  expect(error).toMatchObject({ code: 'timed_out' });
});
