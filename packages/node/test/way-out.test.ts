/** What programs open to the outside, on fakes: whose it is, how it is counted, and how it ends. */
import { AppError, DEFAULT_VAULT, MAX_EGRESS_CONNECTIONS, type SandboxId } from '@space/core';
import type { EgressHandler } from '@space/testkit';
import { expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

const KIND = { memory: 'in_place', reached: 'itself' } as const;

/** A program of the sandbox's running life that connects. */
async function dial(world: World, sandboxId: SandboxId, host = 'api.example.com', port = 443) {
  const { life } = await world.node.inspect(DEFAULT_VAULT, sandboxId);
  const vm = life === null ? undefined : world.runtime.alive.get(life);
  if (vm === undefined || life === null) throw new Error('it does not run');
  return { life, program: vm.outgoing.dial(host, port) };
}

const textOf = async (output: AsyncIterable<Uint8Array>) => Buffer.concat(await Array.fromAsync(output)).toString();
const statusOf = async (world: World) => (await world.node.capabilities()).wayOut;

const echo: EgressHandler = async (guest) => {
  for await (const piece of guest.output) await guest.write(piece);
  guest.end();
};
/** Until the life ends. */
const hold: EgressHandler = (_guest, _connection, signal) =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

it('brings each connection to the gateway under its sandbox and life, and counts what passes', async () => {
  await using world = await makeWorld(KIND);
  world.egress.handle = echo;
  const sandboxId = await world.create();
  const { life, program } = await dial(world, sandboxId);
  void program.write(Buffer.from('hello')).then(() => program.end());
  expect(await textOf(program.output)).toBe('hello');
  expect(world.egress.asked).toEqual([{ sandboxId, lifeId: life, host: 'api.example.com', port: 443 }]);
  expect((await world.node.usage(sandboxId))?.outgoingBytes).toBe(10);
  await expect.poll(() => statusOf(world)).toMatchObject({ open: 0, carried: 1, outBytes: 5, inBytes: 5 });
});

it('resets what the gateway refuses, or cannot carry', async () => {
  await using world = await makeWorld(KIND);
  const sandboxId = await world.create();
  const refused = await dial(world, sandboxId);
  await expect(textOf(refused.program.output)).rejects.toMatchObject({ code: 'link_lost' });
  world.egress.handle = async () => {
    throw new AppError('unavailable', 'The gateway does not answer.');
  };
  const failed = await dial(world, sandboxId);
  await expect(textOf(failed.program.output)).rejects.toMatchObject({ code: 'link_lost' });
  expect(await statusOf(world)).toMatchObject({ open: 0, refused: 1, failed: 1 });
});

it('carries so many of one sandbox at once, and those of another all the same', async () => {
  await using world = await makeWorld(KIND);
  world.egress.handle = hold;
  const [greedy, other] = [await world.create(), await world.create()];
  for (let count = 0; count < MAX_EGRESS_CONNECTIONS + 10; count += 1) await dial(world, greedy);
  await expect.poll(() => statusOf(world)).toMatchObject({ open: MAX_EGRESS_CONNECTIONS });
  await dial(world, other);
  await expect.poll(() => statusOf(world)).toMatchObject({ open: MAX_EGRESS_CONNECTIONS + 1 });
  expect(world.egress.asked.filter(({ sandboxId }) => sandboxId === greedy)).toHaveLength(MAX_EGRESS_CONNECTIONS);
});

it('cuts what belongs to a life with its end, and carries what the next one opens', async () => {
  await using world = await makeWorld(KIND);
  const reasons: unknown[] = [];
  world.egress.handle = async (guest, connection, signal) => {
    await hold(guest, connection, signal).catch((reason: unknown) => reasons.push(reason));
  };
  const sandboxId = await world.create();
  const point = await world.snapshot(sandboxId);
  const ends = [
    () => world.pause(sandboxId).then((paused) => world.start(sandboxId, paused)),
    () => world.rewind(sandboxId, point),
    () => world.restart(),
  ];
  const lives = new Set<string>();
  for (const [index, end] of ends.entries()) {
    const { life, program } = await dial(world, sandboxId);
    lives.add(life);
    await expect.poll(() => world.egress.asked.length).toBe(index + 1);
    const cut = expect(textOf(program.output)).rejects.toMatchObject({ code: 'link_lost' });
    await end();
    await cut;
  }
  // A daemon that starts again finds the life as it was.
  const last = await dial(world, sandboxId);
  await expect.poll(() => world.egress.asked.length).toBe(ends.length + 1);
  expect(lives).toContain(last.life);
  expect(lives.size).toBe(ends.length);
  await world.destroy(sandboxId);
  await expect(textOf(last.program.output)).rejects.toMatchObject({ code: 'link_lost' });
  await expect
    .poll(() => reasons.map((reason) => (reason as Error).message))
    .toEqual([
      'The connection ended: the sandbox was paused.',
      'The connection ended: the sandbox was rewound.',
      'The connection ended: the node is being closed.',
      'The connection ended: the sandbox was deleted.',
    ]);
});

it('gives the certificates of an order to the guest before its programs run', async () => {
  await using world = await makeWorld(KIND);
  const sandboxId = await world.create();
  const point = await world.pause(sandboxId);
  const trust = '-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n';
  const order = { vault: 'default' as never, sandboxId, epoch: world.epoch(), from: point, template: 'base' };
  const { size } = { size: { vcpus: 1, memoryMib: 1 / 16, diskMib: 1 / 16 } };
  const { lifeId } = await world.node.start({ ...order, generation: 1, size, trust });
  expect(world.runtime.alive.get(lifeId)?.trust).toBe(trust);
});
