import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Code, ConnectError } from '@connectrpc/connect';
import { FileStatus_Type } from '@space/guest-proto';
import { expect, test } from 'vitest';
import { type Answers, fakeAgent } from './fake-agent.ts';

type FileAnswers = NonNullable<Answers['files']>;

const wireStatus = {
  name: Buffer.from('f'),
  type: FileStatus_Type.FILE,
  size: 5n,
  mode: 0o100644,
  uid: 1000,
  gid: 1000,
  modifiedNs: 1_700_000_000_123_456_789n,
  linkTarget: new Uint8Array(),
};
const status = {
  name: 'f',
  type: 'file',
  sizeBytes: 5,
  mode: 0o644,
  uid: 1000,
  gid: 1000,
  modifiedMs: 1_700_000_000_123,
};

async function* chunks(...parts: Uint8Array[]) {
  yield* parts;
}

async function bytesOf(body: AsyncIterable<Uint8Array>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(body));
}

function fails(code: Code): () => never {
  return () => {
    throw new ConnectError('as asked', code);
  };
}

/** An agent that serves one file. */
function serves(content: Buffer): FileAnswers {
  return {
    read: async function* ({ offset, length }) {
      yield { part: { case: 'status', value: { ...wireStatus, size: BigInt(content.length) } } };
      const end = length === undefined ? content.length : Math.min(content.length, Number(offset + length));
      for (let at = Number(offset); at < end; at += 65_536) {
        yield { part: { case: 'data', value: content.subarray(at, Math.min(end, at + 65_536)) } };
      }
    },
  };
}

/** An agent that keeps what is written, if it was committed. */
function keeps() {
  const kept = { opens: [] as unknown[], content: undefined as Buffer | undefined, aborted: 0 };
  const files: FileAnswers = {
    write: async (requests) => {
      const parts: Uint8Array[] = [];
      let committed = false;
      try {
        for await (const { part } of requests) {
          if (part.case === 'open') kept.opens.push(part.value);
          if (part.case === 'data') parts.push(part.value);
          if (part.case === 'commit') committed = true;
        }
      } finally {
        if (!committed) kept.aborted += 1;
      }
      const content = Buffer.concat(parts);
      if (committed) kept.content = content;
      return { size: BigInt(content.length), sha256: createHash('sha256').update(content).digest() };
    },
  };
  return { kept, files };
}

test('files use the traffic port, opened by their first use', async () => {
  const { guest, connected } = await fakeAgent({ files: { stat: () => ({ status: wireStatus }) } });
  expect(connected).toEqual(['control']);
  await Promise.all([guest.stat({ path: 'f' }), guest.stat({ path: 'f' })]);
  expect(connected).toEqual(['control', 'traffic']);
});

test('stat gives the file as it is', async () => {
  const { guest } = await fakeAgent({ files: { stat: () => ({ status: wireStatus }) } });
  expect(await guest.stat({ path: 'f' })).toEqual(status);
});

const impossible: Record<string, object | undefined> = {
  'no status': undefined,
  'an unknown type': { ...wireStatus, type: 77 as FileStatus_Type },
  'no type': { ...wireStatus, type: 0 },
  'a size beyond safe integers': { ...wireStatus, size: 2n ** 60n },
  'a name that is too long': { ...wireStatus, name: Buffer.alloc(300) },
};

test.each(Object.entries(impossible))('a status with %s is refused', async (_name, wire) => {
  const { guest } = await fakeAgent({ files: { stat: () => (wire ? { status: wire } : {}) } });
  await expect(guest.stat({ path: 'f' })).rejects.toMatchObject({ code: 'link_lost' });
});

test.each([
  [Code.NotFound, 'file_not_found'],
  [Code.PermissionDenied, 'file_denied'],
  [Code.FailedPrecondition, 'file_wrong_type'],
  [Code.ResourceExhausted, 'guest_exhausted'],
  [Code.InvalidArgument, 'bad_request'],
  [Code.DeadlineExceeded, 'timed_out'],
  [Code.Unavailable, 'link_lost'],
])('status %i on a file is %s in every call', async (code, expected) => {
  const fail = fails(code);
  // biome-ignore lint/correctness/useYield: a stream that fails before its first part.
  const stream = async function* () {
    fail();
  };
  const { guest } = await fakeAgent({ files: { stat: fail, read: stream, list: stream, write: async () => fail() } });
  const path = 'f';
  const calls = [
    guest.stat({ path }),
    guest.readFile({ path }),
    guest.writeFile({ path }, chunks(Buffer.from('x'))),
    Array.fromAsync(guest.list({ path })),
  ];
  for (const settled of await Promise.allSettled(calls)) {
    expect(settled).toMatchObject({ status: 'rejected', reason: { code: expected, message: 'as asked' } });
  }
});

test.each(['', 'a\0b', 'x'.repeat(5_000), '\ud800'])('a path that no file can have is a bad_request', async (path) => {
  const { guest } = await fakeAgent({});
  await expect(guest.stat({ path })).rejects.toMatchObject({ code: 'bad_request' });
  await expect(guest.readFile({ path })).rejects.toMatchObject({ code: 'bad_request' });
  await expect(guest.writeFile({ path }, chunks())).rejects.toMatchObject({ code: 'bad_request' });
});

test('reads whole files and ranges', async () => {
  const content = randomBytes(300_000);
  const { guest } = await fakeAgent({ files: serves(content) });
  const path = 'f';
  const whole = await guest.readFile({ path });
  expect(whole.status).toEqual({ ...status, sizeBytes: 300_000 });
  expect((await bytesOf(whole.body)).equals(content)).toBe(true);
  const range = await guest.readFile({ path, offset: 70_000, length: 100_001 });
  expect((await bytesOf(range.body)).equals(content.subarray(70_000, 170_001))).toBe(true);
  const empty = await guest.readFile({ path, length: 0 });
  expect((await bytesOf(empty.body)).length).toBe(0);
  const beyond = await guest.readFile({ path, offset: 400_000 });
  expect((await bytesOf(beyond.body)).length).toBe(0);
});

test('more bytes than asked for, or no status first, are refused', async () => {
  const liar: FileAnswers = {
    read: async function* ({ offset }) {
      if (offset === 0n) yield { part: { case: 'status', value: wireStatus } };
      yield { part: { case: 'data', value: Buffer.alloc(10) } };
    },
  };
  const { guest } = await fakeAgent({ files: liar });
  const { body } = await guest.readFile({ path: 'f', length: 5 });
  await expect(bytesOf(body)).rejects.toMatchObject({ code: 'link_lost' });
  await expect(guest.readFile({ path: 'f', offset: 1 })).rejects.toMatchObject({ code: 'link_lost' });
});

test('a read that breaks off in the middle fails, and never looks like the end of the file', async () => {
  const { guest } = await fakeAgent({
    files: {
      read: async function* () {
        yield { part: { case: 'status', value: wireStatus } };
        yield { part: { case: 'data', value: Buffer.alloc(3) } };
        throw new ConnectError('EIO', Code.DataLoss);
      },
    },
  });
  const { body } = await guest.readFile({ path: 'f' });
  await expect(bytesOf(body)).rejects.toMatchObject({ code: 'internal' });
});

test('a body that is left early, aborted, or never read ends its stream at the agent', async () => {
  let open = 0;
  const { guest } = await fakeAgent({
    files: {
      read: async function* (_request, context) {
        open += 1;
        try {
          yield { part: { case: 'status', value: wireStatus } };
          while (!context.signal.aborted) yield { part: { case: 'data', value: Buffer.alloc(65_536) } };
        } finally {
          open -= 1;
        }
      },
    },
  });
  const left = await guest.readFile({ path: 'f' });
  for await (const _part of left.body) break;
  const controller = new AbortController();
  const aborted = await guest.readFile({ path: 'f' }, controller.signal);
  controller.abort(new Error('enough'));
  await expect(bytesOf(aborted.body)).rejects.toThrow('enough');
  const silent = new AbortController();
  await guest.readFile({ path: 'f' }, silent.signal);
  silent.abort();
  for (let tries = 0; open > 0; tries += 1) {
    if (tries > 300) throw new Error(`${open} streams are still open`);
    await sleep(10);
  }
});

test('an agent that stalls in a read is agent_lost; a reader that takes its time is not', async () => {
  let stall = false;
  const { guest } = await fakeAgent(
    {
      files: {
        read: async function* (_request, context) {
          yield { part: { case: 'status', value: wireStatus } };
          if (stall) await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
          yield { part: { case: 'data', value: Buffer.from('hello') } };
        },
      },
    },
    { limits: { stallMs: 80 } },
  );
  const slow = await guest.readFile({ path: 'f' });
  await sleep(200);
  expect(String(await bytesOf(slow.body))).toBe('hello');
  stall = true;
  const { body } = await guest.readFile({ path: 'f' });
  await expect(bytesOf(body)).rejects.toMatchObject({ code: 'agent_lost' });
});

test('writes a file and believes the digest of the guest', async () => {
  const { kept, files } = keeps();
  const { guest } = await fakeAgent({ files });
  const content = randomBytes(500_000);
  const body = chunks(content.subarray(0, 200_000), new Uint8Array(), content.subarray(200_000));
  const written = await guest.writeFile({ path: 'ä', user: 'root', mode: 0o755 }, body);
  expect(written).toEqual({ sizeBytes: 500_000, sha256: createHash('sha256').update(content).digest('hex') });
  expect(kept.content?.equals(content)).toBe(true);
  expect(kept.opens).toMatchObject([{ user: 'root', mode: 0o755 }]);
});

test('an empty file can be written', async () => {
  const { guest } = await fakeAgent({ files: keeps().files });
  expect((await guest.writeFile({ path: 'f' }, chunks())).sizeBytes).toBe(0);
});

test.each([
  ['size', { size: 4n, sha256: createHash('sha256').update('hello').digest() }],
  ['digest', { size: 5n, sha256: createHash('sha256').update('hullo').digest() }],
  ['digest length', { size: 5n, sha256: new Uint8Array() }],
])('a wrong %s is link_lost', async (_name, reply) => {
  const { guest } = await fakeAgent({
    files: {
      write: async (requests) => {
        for await (const _request of requests);
        return reply;
      },
    },
  });
  await expect(guest.writeFile({ path: 'f' }, chunks(Buffer.from('hello')))).rejects.toMatchObject({
    code: 'link_lost',
  });
});

test('a body that throws aborts the write without its commit, and its error comes back', async () => {
  const { kept, files } = keeps();
  const { guest } = await fakeAgent({ files });
  const failure = new Error('the client went away');
  async function* body() {
    yield Buffer.alloc(100_000);
    throw failure;
  }
  await expect(guest.writeFile({ path: 'f' }, body())).rejects.toBe(failure);
  for (let tries = 0; kept.aborted === 0 && tries < 300; tries += 1) await sleep(10);
  expect(kept).toMatchObject({ aborted: 1, content: undefined });
});

test('aborting a write ends it without its commit, also while the body is silent', async () => {
  const { kept, files } = keeps();
  const { guest } = await fakeAgent({ files });
  const controller = new AbortController();
  async function* body() {
    yield Buffer.alloc(100_000);
    controller.abort(new Error('enough'));
    await sleep(100);
    yield Buffer.alloc(1);
  }
  await expect(guest.writeFile({ path: 'f' }, body(), controller.signal)).rejects.toThrow('enough');
  for (let tries = 0; kept.aborted === 0 && tries < 300; tries += 1) await sleep(10);
  expect(kept).toMatchObject({ aborted: 1, content: undefined });
});

test('an agent that refuses early ends the write, and the body is not read on', async () => {
  const { guest } = await fakeAgent({
    files: {
      write: async (requests) => {
        for await (const { part } of requests)
          if (part.case === 'data') throw new ConnectError('ENOSPC: write', Code.ResourceExhausted);
        return {};
      },
    },
  });
  let pulled = 0;
  async function* body() {
    for (; pulled < 1_000; pulled += 1) yield Buffer.alloc(65_536);
  }
  await expect(guest.writeFile({ path: 'f' }, body())).rejects.toMatchObject({
    code: 'guest_full',
    message: 'ENOSPC: write',
  });
  expect(pulled).toBeLessThan(1_000);
});

test('a guest that does not read holds up the body', async () => {
  const { guest } = await fakeAgent(
    { files: { write: () => new Promise<never>(() => {}) } },
    { limits: { stallMs: 300 } },
  );
  let pulled = 0;
  async function* body() {
    for (; pulled < 1_000; pulled += 1) yield Buffer.alloc(65_536);
  }
  await expect(guest.writeFile({ path: 'f' }, body())).rejects.toMatchObject({ code: 'agent_lost' });
  expect(pulled).toBeLessThan(50);
});

test('lists entries of all parts', async () => {
  const entry = (name: string) => ({ ...wireStatus, name: Buffer.from(name) });
  const link = { ...entry('l'), type: FileStatus_Type.SYMLINK, linkTarget: Buffer.from('/t') };
  const { guest } = await fakeAgent({
    files: {
      list: async function* () {
        yield { entries: [entry('a'), entry('b')] };
        yield { entries: [link] };
      },
    },
  });
  const entries = await Array.fromAsync(guest.list({ path: '.' }));
  expect(entries.map((found) => found.name)).toEqual(['a', 'b', 'l']);
  expect(entries[2]).toMatchObject({ type: 'symlink', linkTarget: '/t' });
});
