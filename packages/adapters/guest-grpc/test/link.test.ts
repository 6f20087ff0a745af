import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { Duplex, duplexPair, Transform } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { AppError } from '@space/core';
import fc from 'fast-check';
import { expect, onTestFinished, test, vi } from 'vitest';
import { FRAME_KIND, frameHeader, MAX_PAYLOAD_BYTES, RESYNC_BYTES } from '../src/frame.ts';
import { Link } from '../src/link.ts';
import { AgentLink } from './agent-link.ts';

interface World {
  readonly link: Link;
  readonly agent: AgentLink;
  /** The streams that the agent served, one per session. */
  readonly served: Duplex[];
  /** The agent's end of the raw port. */
  readonly raw: Duplex;
}

function world(options: { before?: (raw: Duplex) => void; openLimitMs?: number; mute?: boolean } = {}): World {
  const [host, raw] = duplexPair();
  options.before?.(raw);
  const served: Duplex[] = [];
  const agent = new AgentLink(raw, (stream) => served.push(stream));
  agent.mute = options.mute ?? false;
  const link = new Link(host, { openLimitMs: options.openLimitMs ?? 5_000 });
  onTestFinished(() => {
    link.destroy();
    raw.destroy();
  });
  return { link, agent, served, raw };
}

async function ended(link: Link): Promise<AppError> {
  if (!link.closed) await new Promise((resolve) => link.once('close', resolve));
  const reason = link.errored;
  if (!(reason instanceof AppError)) throw new Error('the link ended without a reason', { cause: reason });
  return reason;
}

function last<T>(items: readonly T[]): T {
  const item = items.at(-1);
  if (item === undefined) throw new Error('there is none');
  return item;
}

/** Reads exactly `count` bytes. */
async function take(stream: Duplex, count: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let left = count;
  while (left > 0) {
    const part: Buffer | null = stream.read(Math.min(left, Math.max(1, stream.readableLength)));
    if (part === null) {
      await once(stream, 'readable');
      continue;
    }
    parts.push(part);
    left -= part.length;
  }
  return Buffer.concat(parts);
}

test('carries bytes both ways', async () => {
  const { link, served } = world();
  await link.opened;
  link.write('to the agent');
  last(served).write('to the host');
  expect(String(await take(last(served), 12))).toBe('to the agent');
  expect(String(await take(link, 11))).toBe('to the host');
});

test('what is written before the handshake arrives behind it', async () => {
  const { link, served } = world();
  link.write('early');
  await link.opened;
  link.write(' late');
  expect(String(await take(last(served), 10))).toBe('early late');
});

test('leftovers before SYNCED are skipped, whatever they look like', async () => {
  const old = randomBytes(8);
  const { link, served } = world({
    before: (raw) => {
      raw.write(randomBytes(40_000));
      raw.write(frameHeader(FRAME_KIND.synced, old, 0));
      raw.write(Buffer.concat([frameHeader(FRAME_KIND.data, old, 100), Buffer.alloc(37)]));
    },
  });
  await link.opened;
  last(served).write('clean');
  expect(String(await take(link, 5))).toBe('clean');
});

test('an agent inside a cut frame is freed by zeros and a fresh session, and gets what was written early', async () => {
  const { link, agent, served } = world();
  // As if an earlier host had died after the header of a full frame.
  agent.raw.unshift(frameHeader(FRAME_KIND.data, randomBytes(8), MAX_PAYLOAD_BYTES));
  link.write('early');
  await link.opened;
  expect(String(await take(last(served), 5))).toBe('early');
  expect(agent.sessions).toHaveLength(1);
  expect(agent.skipped).toBeLessThanOrEqual(RESYNC_BYTES);
});

test.each([1, 4, 8, 19])('an agent that holds %i bytes of a cut header is freed too', async (bytes) => {
  const { link, agent } = world();
  agent.raw.unshift(frameHeader(FRAME_KIND.data, randomBytes(8), MAX_PAYLOAD_BYTES).subarray(0, bytes));
  await link.opened;
});

test('a write that is too long to be kept waits for the handshake', async () => {
  const { link, agent, served } = world({ mute: true });
  const bytes = randomBytes(50_000);
  let acknowledged = false;
  link.write(bytes, () => {
    acknowledged = true;
  });
  await turn();
  expect(acknowledged).toBe(false);
  agent.mute = false;
  await link.opened;
  expect((await take(last(served), bytes.length)).equals(bytes)).toBe(true);
});

test('an agent that never answers is agent_lost, and the tries do not pile up', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const [host, raw] = duplexPair();
  const link = new Link(host, { openLimitMs: 60_000 });
  await turn();
  await vi.advanceTimersByTimeAsync(60_000);
  vi.useRealTimers();
  expect((await ended(link)).code).toBe('agent_lost');
  await expect(link.opened).rejects.toMatchObject({ code: 'agent_lost' });
  // The agent reads nothing, so only the tries that the pipe itself took lie there, of some thirty.
  expect(host.writableLength + raw.readableLength).toBeLessThan(4 * RESYNC_BYTES);
});

const violations: Record<string, (session: Buffer) => Buffer> = {
  'a wrong magic': () => Buffer.alloc(20, 1),
  'a SYNCED after the handshake': (session) => frameHeader(FRAME_KIND.synced, session, 0),
  'a frame of another session': () => frameHeader(FRAME_KIND.data, randomBytes(8), 1),
  'a frame that is too long': (session) => frameHeader(FRAME_KIND.data, session, MAX_PAYLOAD_BYTES + 1),
  'a reserved byte that is not zero': (session) => {
    const header = frameHeader(FRAME_KIND.data, session, 1);
    header[6] = 1;
    return header;
  },
};

test.each(Object.entries(violations))('%s ends the session as link_lost', async (_name, bytes) => {
  const { link, agent } = world();
  await link.opened;
  link.resume();
  agent.raw.write(bytes(agent.session));
  expect((await ended(link)).code).toBe('link_lost');
});

test('the port closing at any moment ends the session as link_lost', async () => {
  const early = world({ mute: true });
  early.raw.destroy();
  expect((await ended(early.link)).code).toBe('link_lost');
  const open = world();
  await open.link.opened;
  open.link.resume();
  open.raw.end();
  expect((await ended(open.link)).code).toBe('link_lost');
});

test('a new session takes the place of the old one at the agent', async () => {
  const [host, raw] = duplexPair();
  const served: Duplex[] = [];
  const agent = new AgentLink(raw, (stream) => served.push(stream));
  // One raw port that outlives its sessions, as the guest sees it.
  const first = new Link(borrow(host), { openLimitMs: 1_000 });
  await first.opened;
  const second = new Link(borrow(host), { openLimitMs: 1_000 });
  await second.opened;
  expect(agent.sessions).toHaveLength(2);
  expect(served[0]?.destroyed).toBe(true);
  last(served).write('second');
  expect(String(await take(second, 6))).toBe('second');
  second.destroy();
  first.destroy();
});

/** A connection to a port that stays open when the connection is closed. */
function borrow(port: Duplex): Duplex {
  const connection = new Duplex({
    read: () => {},
    write: (chunk, _encoding, done) => void port.write(chunk, done),
  });
  port.on('data', (chunk) => connection.push(chunk));
  return connection;
}

test('closing flushes whole frames, so that the next session needs no retry', async () => {
  const [host, raw] = duplexPair();
  const link = new Link(host, { openLimitMs: 1_000 });
  const received: Buffer[] = [];
  const agent = new AgentLink(raw, (stream) => stream.on('data', (chunk) => received.push(chunk)));
  await link.opened;
  link.write(Buffer.alloc(200_000, 7));
  link.destroy();
  await once(raw, 'end');
  expect(Buffer.concat(received).length % MAX_PAYLOAD_BYTES).toBe(200_000 % MAX_PAYLOAD_BYTES);
  expect(agent.skipped).toBe(0);
});

test('50 MB through each way under back-pressure keep the buffers bounded', async () => {
  const { link, served } = world();
  await link.opened;
  const total = 50_000_000;
  const block = randomBytes(100_000);
  let highest = 0;
  const pump = async (from: Duplex, to: Duplex): Promise<number> => {
    void (async () => {
      for (let sent = 0; sent < total; sent += block.length) if (!from.write(block)) await once(from, 'drain');
    })();
    let received = 0;
    for await (const chunk of to) {
      received += chunk.length;
      highest = Math.max(highest, from.writableLength, to.readableLength);
      // A slow reader, now and then.
      if (received % 7 === 0) await turn();
      if (received >= total) break;
    }
    return received;
  };
  expect(await pump(link, last(served))).toBe(total);
  const back = world();
  await back.link.opened;
  expect(await pump(last(back.served), back.link)).toBe(total);
  expect(highest).toBeLessThan(400_000);
});

test('a reader that stops stops the sender', async () => {
  const { link, served } = world();
  await link.opened;
  let sent = 0;
  const agentSide = last(served);
  while (agentSide.write(Buffer.alloc(10_000)) && sent < 10_000_000) {
    sent += 10_000;
    await turn();
  }
  expect(sent).toBeLessThan(1_000_000);
  expect(link.readableLength).toBeLessThan(200_000);
});

test('whatever the chunking and the writes, the bytes are the same', async () => {
  const writes = fc.array(fc.integer({ min: 1, max: 40_000 }), { minLength: 1, maxLength: 12 });
  const cuts = fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(writes, cuts, fc.uint8Array({ maxLength: 300 }), async (sizes, pieces, garbage) => {
      const [host, near] = duplexPair();
      const [far, raw] = duplexPair();
      near.pipe(chunked(pieces)).pipe(far);
      far.pipe(chunked(pieces)).pipe(near);
      raw.write(garbage);
      // The agent sends back what it gets.
      new AgentLink(raw, (stream) => stream.pipe(stream));
      const link = new Link(host, { openLimitMs: 2_000 });
      const sent = Buffer.concat(sizes.map((size) => randomBytes(size)));
      let at = 0;
      for (const size of sizes) {
        link.write(sent.subarray(at, at + size));
        at += size;
      }
      expect((await take(link, sent.length)).equals(sent)).toBe(true);
      link.destroy();
    }),
    { numRuns: 30 },
  );
});

/** Cuts what passes into pieces of the given sizes, over and over. */
function chunked(sizes: readonly number[]): Transform {
  let next = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      for (let at = 0; at < chunk.length; ) {
        const size = sizes[next++ % sizes.length] ?? 1;
        this.push(chunk.subarray(at, at + size));
        at += size;
      }
      done();
    },
  });
}
