/** The way out over the link: bytes both ways at the pace of who reads, ends, refusals, and cuts that both sides notice. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AppError, type LentGuest, newId } from '@space/core';
import { connectEgress, type Service, serveEgress } from '@space/link';
import { FakeEgress, portPair, seededChance } from '@space/testkit';
import { afterEach, beforeEach, expect, it } from 'vitest';

const chance = seededChance(3);
const CONNECTION = {
  sandboxId: newId('sandbox', chance),
  lifeId: newId('life', chance),
  host: 'example.com',
  port: 443,
};
const PIECE = new Uint8Array(64 * 1024).fill(7);
/** Two windows, and what the kernel holds. */
const ON_THE_WAY_BYTES = 2 * 1024 * 1024;

let folder: string;
let service: Service;
let socketPath: string;
let gateway: FakeEgress;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-egress-'));
  socketPath = join(folder, 'link');
  gateway = new FakeEgress();
  service = await serveEgress({ egress: gateway, socketPath, onUnexpected: () => undefined });
});
afterEach(async () => {
  await service.close();
  await rm(folder, { recursive: true });
});

function carry(signal = new AbortController().signal) {
  const [program, guest] = portPair();
  return { program, carried: connectEgress(socketPath).carry(CONNECTION, guest, signal) };
}

const textOf = async (output: AsyncIterable<Uint8Array>) => Buffer.concat(await Array.fromAsync(output)).toString();

it('carries bytes both ways, each with its own end', async () => {
  gateway.handle = async (guest) => {
    const question = await textOf(guest.output);
    await guest.write(Buffer.from(`you said: ${question}`));
    guest.end();
  };
  const { program, carried } = carry();
  void program.write(Buffer.from('hello')).then(() => program.end());
  expect(await textOf(program.output)).toBe('you said: hello');
  await carried;
  expect(gateway.asked).toEqual([CONNECTION]);
});

it('refuses with the reason of the gateway, and the program sees a reset', async () => {
  const { program, carried } = carry();
  await expect(carried).rejects.toMatchObject({ code: 'egress_refused' });
  await expect(textOf(program.output)).rejects.toMatchObject({ code: 'link_lost' });
});

it('says that there is no gateway', async () => {
  await service.close();
  await expect(carry().carried).rejects.toMatchObject({ code: 'unavailable' });
});

it('takes a thousand connections that are opened at once', async () => {
  gateway.handle = async (guest) => guest.end();
  const dialled = connectEgress(socketPath);
  const { signal } = new AbortController();
  const carried = Array.from({ length: 1000 }, () => {
    const [program, guest] = portPair();
    program.end();
    return dialled.carry(CONNECTION, guest, signal);
  });
  await Promise.all(carried);
  expect(gateway.asked.length).toBe(1000);
});

it('takes no more from a program than is read, and tells the gateway of its end meanwhile', async () => {
  const life = new AbortController();
  const seen = Promise.withResolvers<unknown>();
  gateway.handle = async (_guest, _connection, signal) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    seen.resolve(signal.reason);
  };
  const { program, carried } = carry(life.signal);
  let sent = 0;
  const pour = async () => {
    for (;;) {
      await program.write(PIECE);
      sent += PIECE.length;
    }
  };
  const poured = pour().catch(() => undefined);
  let before = -1;
  while (before !== sent || sent === 0) {
    before = sent;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  expect(sent).toBeLessThan(ON_THE_WAY_BYTES);
  const reason = new AppError('link_lost', 'The sandbox was paused.');
  life.abort(reason);
  await expect(carried).rejects.toBe(reason);
  expect(await seen.promise).toMatchObject({ code: 'link_lost' });
  await poured;
});

it('lets one direction flow while the other stands still', async () => {
  const got = Promise.withResolvers<number>();
  gateway.handle = async (guest) => {
    // Never read by the program.
    const pouring = (async () => {
      for (;;) await guest.write(PIECE);
    })().catch(() => undefined);
    let bytes = 0;
    for await (const piece of guest.output) bytes += piece.length;
    got.resolve(bytes);
    await pouring;
  };
  const { program, carried } = carry();
  for (let count = 0; count < 100; count += 1) await program.write(PIECE);
  program.end();
  expect(await got.promise).toBe(100 * PIECE.length);
  program.reset();
  await expect(carried).rejects.toMatchObject({ code: 'link_lost' });
});

it('a program that resets is no end for the gateway, however much it had sent', async () => {
  const heard = Promise.withResolvers<unknown>();
  gateway.handle = async (guest) => {
    await textOf(guest.output).then(heard.resolve, heard.reject);
  };
  const { program, carried } = carry();
  const both = Promise.allSettled([heard.promise, carried]);
  await program.write(PIECE);
  program.reset();
  const lost = { status: 'rejected', reason: { code: 'link_lost' } };
  expect(await both).toMatchObject([lost, lost]);
});

it('what the gateway has ended arrives whole at a program that still sends', async () => {
  gateway.handle = async (guest) => {
    for (let count = 0; count < 100; count += 1) await guest.write(PIECE);
    guest.end();
  };
  const { program, carried } = carry();
  const pour = async () => {
    for (;;) await program.write(PIECE);
  };
  const poured = pour().catch(() => undefined);
  expect((await textOf(program.output)).length).toBe(100 * PIECE.length);
  await carried;
  await poured;
});

it('gives the gateway the socket of the kernel, with what was read of it', async () => {
  gateway.handle = async (guest) => {
    const { take } = guest as LentGuest;
    for await (const first of guest.output) {
      const taken = take?.call(guest, first);
      if (taken == null) throw new Error('there is no socket');
      taken.socket.once('finish', taken.ended);
      taken.socket.pipe(taken.socket);
      await once(taken.socket, 'close');
      return;
    }
  };
  const { program, carried } = carry();
  await program.write(Buffer.from('hello '));
  void program.write(Buffer.from('again')).then(() => program.end());
  expect(await textOf(program.output)).toBe('hello again');
  await carried;
});

it('bytes that no call announces, and a second connection of one call, are turned away', async () => {
  const stranger = connect(socketPath);
  stranger.write(Buffer.from([0, 0, 0, 3, 7, 1, 2, 3]));
  await once(stranger, 'close');
  expect(gateway.asked).toEqual([]);
});

it('a gateway that resets is a cut for the program; one that dies too', async () => {
  gateway.handle = async (guest) => guest.reset();
  const cut = carry();
  await expect(cut.carried).rejects.toMatchObject({ code: 'unavailable' });
  await expect(textOf(cut.program.output)).rejects.toMatchObject({ code: 'link_lost' });

  gateway.handle = (_guest, _connection, signal) =>
    new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
  const left = carry();
  await expect.poll(() => gateway.asked.length).toBe(2);
  await service.close();
  await expect(left.carried).rejects.toMatchObject({ code: 'unavailable' });
});

it('answers what is no connection with bad_request', async () => {
  const [, guest] = portPair();
  const far = connectEgress(socketPath);
  const { signal } = new AbortController();
  for (const wrong of [
    { port: 0 },
    { port: 70_000 },
    { host: '' },
    { host: 'x'.repeat(254) },
    { lifeId: 'x' as never },
  ])
    await expect(far.carry({ ...CONNECTION, ...wrong }, guest, signal)).rejects.toMatchObject({ code: 'bad_request' });
  expect(gateway.asked).toEqual([]);
});
