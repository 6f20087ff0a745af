/** Connections into a guest, for guests whose loopback is this machine's: the cases listen on it themselves. */
import { createServer, type Socket } from 'node:net';
import { AppError, type Guest } from '@space/core';
import { expect, test } from 'vitest';
import { chance, eventually } from './world.ts';

export interface PortsUnderTest {
  readonly openPort: Guest['openPort'];
  /** Fails when calls of another kind don't go through. */
  othersGoOn(): Promise<void>;
  /** Ends the channel to the guest. */
  close(): Promise<void>;
}

export type WithPorts = (run: (guest: PortsUnderTest) => Promise<void>) => () => Promise<void>;

interface Listener extends AsyncDisposable {
  readonly port: number;
  readonly sockets: Socket[];
}

async function listen(serve: (socket: Socket) => void = () => undefined, host = '127.0.0.1'): Promise<Listener> {
  const sockets: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined);
    sockets.push(socket);
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('it listens nowhere');
  return {
    port: address.port,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const echo = (socket: Socket) => void socket.pipe(socket);

/** How the far end of the first connection saw it end. */
async function endOf({ sockets }: Listener): Promise<'reset' | 'end'> {
  await eventually(async () => sockets.length > 0);
  const [socket] = sockets;
  socket?.resume();
  await eventually(async () => socket?.errored != null || socket?.readableEnded === true);
  return socket?.errored ? 'reset' : 'end';
}

async function read(connection: Awaited<ReturnType<Guest['openPort']>>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(connection.output));
}

export function portCases(withPorts: WithPorts): void {
  test(
    'bytes pass both ways, and each side ends by itself',
    withPorts(async (guest) => {
      await using listener = await listen(echo);
      const connection = await guest.openPort(listener.port);
      const content = Buffer.from(chance.bytes(60_000));
      const back = read(connection);
      for (let count = 0; count < 50; count += 1) await connection.write(content);
      connection.end();
      expect((await back).equals(Buffer.concat(Array(50).fill(content)))).toBe(true);
      await connection.closed;
    }),
  );

  test(
    'what listens on IPv6 only is reached, and what does not listen is port_refused',
    withPorts(async (guest) => {
      const listener = await listen(echo, '::1');
      const connection = await guest.openPort(listener.port);
      connection.end();
      expect((await read(connection)).length).toBe(0);
      await listener[Symbol.asyncDispose]();
      await expect(guest.openPort(listener.port)).rejects.toMatchObject({ code: 'port_refused' });
    }),
  );

  test(
    'the guest may end first, and still takes what is sent',
    withPorts(async (guest) => {
      const got: Buffer[] = [];
      await using listener = await listen((socket) => {
        socket.end('bye');
        socket.on('data', (piece) => got.push(piece));
      });
      const connection = await guest.openPort(listener.port);
      expect(String(await read(connection))).toBe('bye');
      await connection.write(Buffer.from('late'));
      connection.end();
      await connection.closed;
      await eventually(async () => Buffer.concat(got).toString() === 'late');
    }),
  );

  test(
    'what is left looks cut to the other side: by a reset, by the signal, by leaving its output',
    withPorts(async (guest) => {
      for (const leave of ['reset', 'signal', 'output'] as const) {
        await using listener = await listen((socket) => void socket.write('first'));
        const stop = new AbortController();
        const connection = await guest.openPort(listener.port, stop.signal);
        await connection.write(Buffer.from('half of it'));
        for await (const _ of connection.output) {
          if (leave === 'output') break;
          if (leave === 'reset') connection.reset();
          else stop.abort(new AppError('unavailable', 'enough'));
          break;
        }
        expect(await endOf(listener)).toBe('reset');
        await connection.closed;
      }
    }),
  );

  test(
    'a reset by the guest is link_lost, after what it had sent',
    withPorts(async (guest) => {
      await using listener = await listen(
        (socket) =>
          void socket.write('before', () => {
            setTimeout(() => socket.resetAndDestroy(), 50);
          }),
      );
      const connection = await guest.openPort(listener.port);
      const got: Uint8Array[] = [];
      const reading = (async () => {
        for await (const piece of connection.output) got.push(piece);
      })();
      await expect(reading).rejects.toMatchObject({ code: 'link_lost' });
      expect(Buffer.concat(got).toString()).toBe('before');
      await connection.closed;
      await expect(connection.write(Buffer.from('x'))).rejects.toMatchObject({ code: 'link_lost' });
    }),
  );

  test(
    'one that nobody reads is held back, and holds up neither files nor commands nor another connection',
    withPorts(async (guest) => {
      let sent = 0;
      await using endless = await listen((socket) => {
        const block = Buffer.alloc(64 * 1024);
        const pour = () => {
          while (!socket.destroyed && socket.write(block)) sent += block.length;
          sent += block.length;
        };
        socket.on('drain', pour);
        pour();
      });
      await using listener = await listen(echo);
      const stuck = [await guest.openPort(endless.port), await guest.openPort(endless.port)];
      let before = -1;
      await eventually(async () => {
        const still = sent === before;
        before = sent;
        await new Promise((resolve) => setTimeout(resolve, 200));
        return still;
      });
      // The kernel's buffers are the most of it.
      expect(sent).toBeLessThan(40_000_000);
      await guest.othersGoOn();
      const connection = await guest.openPort(listener.port);
      await connection.write(Buffer.from('goes on'));
      connection.end();
      expect(String(await read(connection))).toBe('goes on');
      for (const one of stuck) one.reset();
    }),
  );

  test(
    'the end of the channel resets every connection',
    withPorts(async (guest) => {
      await using listener = await listen();
      const connection = await guest.openPort(listener.port);
      const reading = read(connection);
      await guest.close();
      await expect(reading).rejects.toMatchObject({ code: 'link_lost' });
      expect(await endOf(listener)).toBe('reset');
    }),
  );
}
