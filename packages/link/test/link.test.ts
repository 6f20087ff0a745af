/** What the link promises beyond the node port, whose own suite runs over it too (`packages/node/test`). */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AppError,
  DEFAULT_VAULT,
  type FileRange,
  type GuestCommand,
  type LifeEnd,
  type ProcessEvent,
  type SandboxId,
} from '@space/core';
import { connectNode } from '@space/link';
import { FakeNode } from '@space/testkit';
import { describe, expect, it } from 'vitest';
import { command, makeWorld, snapshotOrder, start } from './world.ts';

const CHUNK = new Uint8Array(64 * 1024).fill(255);
/** What may lie in buffers on the way: two streams of Node and a socket of the kernel. */
const ON_THE_WAY_BYTES = 2 * 1024 * 1024;

/** Its commands print without end, its files have none; it counts what is asked of it. */
class EndlessNode extends FakeNode {
  givenBytes = 0;
  ended = 0;

  override async *exec(_: SandboxId, { processId }: GuestCommand, signal?: AbortSignal): AsyncIterable<ProcessEvent> {
    try {
      yield { kind: 'started', processId, pid: 7 };
      for (let offset = 0; ; offset += CHUNK.length) {
        signal?.throwIfAborted();
        this.givenBytes += CHUNK.length;
        yield { kind: 'output', stream: 'stdout', offset, data: CHUNK };
        await sleep(0);
      }
    } finally {
      this.ended += 1;
    }
  }

  override async readFile(sandboxId: SandboxId, file: FileRange) {
    const { status } = await super.readFile(sandboxId, file);
    const give = () => {
      this.givenBytes += CHUNK.length;
    };
    const end = () => {
      this.ended += 1;
    };
    const body = (async function* () {
      try {
        for (;;) {
          give();
          yield CHUNK;
          await sleep(0);
        }
      } finally {
        end();
      }
    })();
    return { status, body };
  }
}

async function* repeated(bytes: Uint8Array, count: number, given: () => void = () => undefined) {
  for (let sent = 0; sent < count; sent++) {
    given();
    yield bytes;
    await sleep(0);
  }
}

/** Waits until a number no longer grows, and returns it. */
async function settled(read: () => number): Promise<number> {
  let before = -1;
  while (before !== read()) {
    before = read();
    await sleep(150);
  }
  return before;
}

describe('what is streamed over the link', () => {
  it('is asked for no faster than it is read: output', async () => {
    const node = new EndlessNode();
    await using world = await makeWorld(node);
    const events = world.remote.exec(await start(node), command('forever'))[Symbol.asyncIterator]();
    await events.next();
    const given = await settled(() => node.givenBytes);
    expect(given).toBeLessThan(ON_THE_WAY_BYTES);
    for (let read = 0; read < 100; read++) await events.next();
    expect(node.givenBytes).toBeGreaterThanOrEqual(100 * CHUNK.length);
    await events.return?.();
    await expect.poll(() => node.ended).toBe(1);
  });

  it('is asked for no faster than it is read: a file, also one that nobody reads to its end', async () => {
    const node = new EndlessNode();
    await using world = await makeWorld(node);
    const sandbox = await start(node);
    await node.writeFile(sandbox, { path: '/f' }, repeated(CHUNK, 1));
    const { body } = await world.remote.readFile(sandbox, { path: '/f' });
    const given = await settled(() => node.givenBytes);
    expect(given).toBeLessThan(ON_THE_WAY_BYTES);
    for await (const bytes of body) {
      expect(bytes[0]).toBe(255);
      break;
    }
    await expect.poll(() => node.ended).toBe(1);
  });

  it('is sent no faster than it is taken: an upload', async () => {
    const taking = Promise.withResolvers<void>();
    const node = new (class extends FakeNode {
      override async writeFile(sandboxId: SandboxId, file: { path: string }, body: AsyncIterable<Uint8Array>) {
        await taking.promise;
        return super.writeFile(sandboxId, file, body);
      }
    })();
    await using world = await makeWorld(node);
    let given = 0;
    const body = repeated(CHUNK, 200, () => {
      given += CHUNK.length;
    });
    const written = world.remote.writeFile(await start(node), { path: '/f' }, body);
    expect(await settled(() => given)).toBeLessThan(ON_THE_WAY_BYTES);
    taking.resolve();
    expect(await written).toMatchObject({ sizeBytes: 200 * CHUNK.length });
  });

  it('ends on both sides when its signal aborts, with the signal’s reason', async () => {
    const node = new EndlessNode();
    await using world = await makeWorld(node);
    const stop = new AbortController();
    const reason = new Error('enough');
    const reading = Array.fromAsync(world.remote.exec(await start(node), command('forever'), stop.signal));
    await expect.poll(() => node.givenBytes).toBeGreaterThan(0);
    stop.abort(reason);
    await expect(reading).rejects.toBe(reason);
    await expect.poll(() => node.ended).toBe(1);
  });

  it('is no whole file when its sender fails, and the sender’s own error is what he gets', async () => {
    const node = new FakeNode();
    await using world = await makeWorld(node);
    const sandbox = await start(node);
    const mine = new Error('my disk broke');
    const body = (async function* () {
      yield CHUNK;
      throw mine;
    })();
    await expect(world.remote.writeFile(sandbox, { path: '/f' }, body)).rejects.toBe(mine);
    await expect(node.stat(sandbox, { path: '/f' })).rejects.toMatchObject({ code: 'file_not_found' });
  });

  it('is refused while it is still being sent', async () => {
    const node = new (class extends FakeNode {
      override async writeFile(_: SandboxId, __: unknown, body: AsyncIterable<Uint8Array>): Promise<never> {
        for await (const _bytes of body) throw new AppError('guest_full', 'The disk is full.');
        throw new Error('there was no body');
      }
    })();
    await using world = await makeWorld(node);
    let ended = false;
    const body = (async function* () {
      try {
        for (;;) yield CHUNK;
      } finally {
        ended = true;
      }
    })();
    const upload = world.remote.writeFile(await start(node), { path: '/f' }, body);
    await expect(upload).rejects.toMatchObject({ code: 'guest_full' });
    await expect.poll(() => ended).toBe(true);
  });
});

describe('an error over the link', () => {
  it('has the code, detail and facts that it was thrown with, and the text of its causes', async () => {
    const node = new (class extends FakeNode {
      override async snapshot(): Promise<never> {
        const cause = new TypeError('the disk said no', { cause: new Error('sector 7') });
        throw new AppError(
          'insufficient_space',
          { detail: 'Too full.', facts: { freeBytes: 3, vault: 'v' } },
          { cause },
        );
      }
    })();
    await using world = await makeWorld(node);
    const thrown = await world.remote.snapshot(snapshotOrder(await start(node))).catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(AppError);
    expect(thrown).toMatchObject({
      code: 'insufficient_space',
      message: 'Too full.',
      facts: { freeBytes: 3, vault: 'v' },
    });
    expect(thrown).toMatchObject({
      cause: { message: 'TypeError: the disk said no', cause: { message: 'Error: sector 7' } },
    });
    expect(world.unexpected).toEqual([]);
  });

  it('that is a bug is internal, and is told where it happened', async () => {
    const bug = new TypeError('x is not a function');
    const node = new (class extends FakeNode {
      override async usage(): Promise<never> {
        throw bug;
      }
    })();
    await using world = await makeWorld(node);
    await expect(world.remote.usage(await start(node))).rejects.toMatchObject({ code: 'internal' });
    expect(world.unexpected).toEqual([bug]);
  });
});

describe('a node that ends', () => {
  it('cuts what was begun as link_lost, and what may be asked again as node_unavailable; then nothing is begun', async () => {
    const node = new FakeNode();
    await using world = await makeWorld(node);
    const sandbox = await start(node);
    const held = [node.faults.holdNext('snapshot'), node.faults.holdNext('ensureReady')];
    const snapshot = world.remote.snapshot(snapshotOrder(sandbox));
    const ready = world.remote.ensureReady(DEFAULT_VAULT, 'base', { vcpus: 1, memoryMib: 256, diskMib: 2048 });
    const stream = Array.fromAsync(world.remote.exec(sandbox, command('forever')));
    const outcomes = Promise.allSettled([snapshot, ready, stream]);
    await Promise.all(held.map(({ reached }) => reached));
    await world.cut();
    expect((await outcomes).map((one) => (one.status === 'rejected' ? one.reason.code : one))).toEqual([
      'link_lost',
      'node_unavailable',
      'link_lost',
    ]);
    const later = [
      world.remote.snapshot(snapshotOrder(sandbox)),
      world.remote.capabilities(),
      world.remote.templates(),
    ];
    for (const call of later) await expect(call).rejects.toMatchObject({ code: 'node_unavailable' });
    await expect(Array.fromAsync(world.remote.exec(sandbox, command('read')))).rejects.toMatchObject({
      code: 'node_unavailable',
    });
  });

  it('is found again, and tells which lives ended meanwhile', async () => {
    const node = new FakeNode();
    await using world = await makeWorld(node);
    const [whole, dead] = [await start(node), await start(node)];
    const ends: LifeEnd[] = [];
    let back = 0;
    world.remote.onLifeEnded((end) => ends.push(end));
    world.remote.onBack(() => {
      back += 1;
    });
    await world.cut();
    node.crash(dead);
    expect(ends).toEqual([]);
    await world.serve(node);
    await expect.poll(() => back).toBe(1);
    expect(ends).toMatchObject([{ sandboxId: dead }]);
    node.crash(whole, 'it was killed');
    await expect.poll(() => ends[1]).toMatchObject({ sandboxId: whole, detail: 'it was killed' });
  });

  it('that says nothing any more is given up', async () => {
    const accepted: Socket[] = [];
    await using world = await makeWorld(new FakeNode(), 300);
    await world.cut();
    // A process that is stopped: the kernel takes connections, and nobody answers.
    const silent = createServer((socket) => accepted.push(socket)).listen(world.socketPath);
    await once(silent, 'listening');
    await expect(world.remote.inspectAll()).rejects.toMatchObject({ code: 'node_unavailable' });
    const closed = once(silent, 'close');
    silent.close();
    for (const socket of accepted) socket.destroy();
    await closed;
  });

  it('is not waited for when the link is closed', async () => {
    const remote = connectNode({ socketPath: '/nowhere' });
    await expect(remote.whenUp(AbortSignal.timeout(50))).rejects.toThrow();
    await remote.close();
  });
});

describe('a stranger on the socket', () => {
  const frame = (kind: number, payload: Buffer, length = payload.length) => {
    const header = Buffer.alloc(5);
    header.writeUInt32BE(length);
    header[4] = kind;
    return Buffer.concat([header, payload]);
  };
  const call = (head: unknown) => {
    const json = Buffer.from(JSON.stringify({ value: head }));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(json.length);
    return frame(1, Buffer.concat([length, json]));
  };

  it.each([
    ['an unknown call', call({ method: 'constructor', args: [] }), 'bad_request'],
    ['an id that is a path', call({ method: 'inspect', args: ['../../etc'] }), 'bad_request'],
    [
      'an order for a path',
      call({ method: 'destroy', args: [{ sandboxId: '..', vault: 'v', epoch: 1 }] }),
      'bad_request',
    ],
    ['points that are paths', call({ method: 'destroy', args: [{ points: ['../x'] }] }), 'bad_request'],
    ['a vault that is a path', call({ method: 'deletePoint', args: ['../v', 'snp_0000000000000000'] }), 'bad_request'],
    ['no call', frame(4, Buffer.from('x')), 'bad_request'],
    ['a call that is no value', frame(1, Buffer.from('x')), 'internal'],
    ['a frame without end', frame(1, Buffer.alloc(0), 2 ** 32 - 1), null],
  ])('who sends %s is refused, and others are served', async (_, bytes, code) => {
    await using world = await makeWorld(new FakeNode());
    const socket = connect(world.socketPath);
    const answer: Buffer[] = [];
    socket.on('data', (data) => answer.push(data));
    socket.on('error', () => undefined);
    socket.write(bytes);
    await once(socket, 'close');
    const text = Buffer.concat(answer).toString();
    if (code !== null) expect(text).toContain(`"${code}"`);
    expect(await world.remote.inspectAll()).toEqual([]);
  });
});
