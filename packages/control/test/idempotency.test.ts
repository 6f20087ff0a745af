import type { Caller } from '@space/contract';
import { AppError } from '@space/core';
import { beforeEach, describe, expect, it } from 'vitest';
import { collect, eventually, NO_LEFTOVERS, World } from './test-world.ts';

let world: World;
let principal: Caller['principal'];
let requests = 0;

beforeEach(() => {
  world = new World();
  ({ principal } = world.caller());
});

/** One request of a call that its key names. */
const request = (idempotencyKey: string): Caller => {
  requests++;
  return { ...world.caller(), principal, idempotencyKey, requestId: `req_${requests}` };
};
const create = (key: string, name?: string) =>
  world.control.createSandbox(request(key), name === undefined ? {} : { name });
const everySandbox = async () => (await world.records.allSandboxes()).length;

describe('a call that is repeated', () => {
  it('is carried out once, and answered the same', async () => {
    const first = await create('a');
    await world.pause(first.id);
    expect(await create('a')).toEqual(first);
    expect(await everySandbox()).toBe(1);
    expect((await create('b')).id).not.toBe(first.id);
  });

  it('is answered the same whatever a caller has named his own things', async () => {
    const metadata = { token: 'a', secretKey: 'b', $error: 'c', key: 'd' };
    const first = await world.control.createSandbox(request('a'), { metadata });
    const again = await world.control.createSandbox(request('a'), { metadata });
    expect(again).toEqual(first);
    expect(again.metadata).toEqual(metadata);
  });

  it('joins the first while that is under way', async () => {
    const held = world.node.faults.holdNext('start');
    const calls = Array.from({ length: 5 }, () => create('a'));
    await held.reached;
    held.letGo();
    const ids = (await Promise.all(calls)).map(({ id }) => id);
    expect(new Set(ids).size).toBe(1);
    expect(await everySandbox()).toBe(1);
  });

  it('is refused with other input, in another project, or on another route', async () => {
    const { id } = await create('a', 'one');
    await expect(create('a', 'two')).rejects.toMatchObject({ code: 'idempotency_conflict' });
    await expect(world.control.pauseSandbox(request('a'), { id })).rejects.toMatchObject({
      code: 'idempotency_conflict',
    });
    const { id: projectId } = await world.control.createProject(world.caller(), { name: 'other' });
    await expect(world.control.createSandbox({ ...request('a'), projectId }, { name: 'one' })).rejects.toMatchObject({
      code: 'idempotency_conflict',
    });
    expect(await everySandbox()).toBe(1);
  });

  it('is another call for another key of the API', async () => {
    const first = await create('a');
    const theirs = await world.control.createSandbox({ ...request('a'), principal: world.caller().principal }, {});
    expect(theirs.id).not.toBe(first.id);
  });

  it('is carried out anew after a failure that changed nothing, or that may pass', async () => {
    const { id } = await create('a', 'taken');
    await expect(create('b', 'taken')).rejects.toMatchObject({ code: 'name_taken' });
    await world.remove(id);
    expect((await create('b', 'taken')).name).toBe('taken');
    world.node.faults.failNext('start', new AppError('insufficient_memory', 'as asked'));
    await expect(create('c')).rejects.toMatchObject({ code: 'insufficient_memory' });
    expect((await create('c')).status).toBe('running');
  });

  it('is done once when its answer was lost between control and node', async () => {
    const { id } = await world.create();
    await world.count(id);
    const { id: to } = await world.snapshot(id);
    await world.count(id);
    const rewind = () => world.control.rewindSandbox(request('r'), { id, to, keepPresent: true });
    world.node.faults.failNext('rewind done', new AppError('link_lost', 'as asked'));
    await expect(rewind()).rejects.toMatchObject({ code: 'link_lost' });
    await world.count(id);
    const { sandbox, kept } = await rewind();
    expect(sandbox.generation).toBe(2);
    expect(kept?.cause).toBe('rewind');
    expect(await world.exec(id, 'read')).toBe('2');
  });

  it('gives each child of a fork again, also those that failed', async () => {
    const { id } = await world.create();
    world.node.faults.failNext('start', new AppError('insufficient_memory', 'as asked'));
    const first = await world.control.forkSandbox(request('a'), { id, count: 3 });
    const again = await world.control.forkSandbox(request('a'), { id, count: 3 });
    expect(again).toEqual(first);
    expect(again.filter((one) => 'error' in one && one.error instanceof AppError)).toHaveLength(1);
  });

  it('starts a command once, and gives its output and its end again', async () => {
    const { id } = await world.create();
    const exec = () => collect(world.control.exec(request('a'), { id, command: 'increment' }));
    const first = await exec();
    expect(first.map(({ kind }) => kind)).toEqual(['started', 'output', 'exited']);
    expect(await exec()).toEqual(first);
    expect(await world.exec(id, 'read')).toBe('1');
  });

  it('follows a command that is under way', async () => {
    const { id } = await world.create();
    const open = () => world.control.exec(request('a'), { id, command: 'forever' })[Symbol.asyncIterator]();
    const [one, other] = [open(), open()];
    const [{ value: started }, { value: again }] = await Promise.all([one.next(), other.next()]);
    expect(again).toEqual(started);
    await world.node.signalProcess((await world.get(id)).id, started.processId, 9);
    expect(await other.next()).toMatchObject({ value: { kind: 'exited', exit: { signal: 9 } } });
  });

  it('does not start a command anew that a rewind took away, and says which it was', async () => {
    const { id } = await world.create();
    const { id: point } = await world.snapshot(id);
    const exec = () => collect(world.control.exec(request('a'), { id, command: 'increment' }));
    const [started] = await exec();
    await world.rewind(id, point);
    const processId = started?.kind === 'started' ? started.processId : '';
    await expect(exec()).rejects.toMatchObject({ code: 'already_started', facts: { processId } });
    expect(await world.exec(id, 'read')).toBe('0');
  });

  it('shows the secret of a key no second time', async () => {
    const first = await world.control.createKey(request('a'), { roles: ['viewer'] });
    const again = await world.control.createKey(request('a'), { roles: ['viewer'] });
    expect(first.secretKey).toMatch(/^space_/);
    expect(again).toEqual({ ...first, secretKey: null });
  });
});

describe('a call that is repeated after its process was killed', () => {
  const steps = ['start', 'start done'];

  it.each(steps)('in %s of a create makes one sandbox', async (step) => {
    const held = world.node.faults.holdNext(step);
    const lost = create('a').catch(() => undefined);
    await held.reached;
    world.newControl();
    const again = create('a');
    held.letGo();
    const { id } = await again;
    await lost;
    const live = await world.records.allSandboxes();
    expect(live.map((one) => one.id)).toEqual([id]);
    expect((await create('a')).id).toBe(id);
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('answers with what it did, when only the answer was lost', async () => {
    const { id } = await world.create();
    const keep = world.records.calls.keepAnswer.bind(world.records.calls);
    world.records.calls.keepAnswer = async () => undefined;
    const taken = await world.control.takeSnapshot(request('s'), { id, name: 'point' });
    const forks = await world.control.forkSandbox(request('f'), { id, count: 2 });
    const rewound = await world.control.rewindSandbox(request('r'), { id, to: 'point', keepPresent: true });
    const created = await create('c', 'one');
    world.records.calls.keepAnswer = keep;
    world.newControl();
    expect(await world.control.takeSnapshot(request('s'), { id, name: 'point' })).toEqual(taken);
    expect(await world.control.forkSandbox(request('f'), { id, count: 2 })).toEqual(forks);
    const again = await world.control.rewindSandbox(request('r'), { id, to: 'point', keepPresent: true });
    expect({ ...again, sandbox: null }).toEqual({ ...rewound, sandbox: null });
    expect((await world.get(id)).generation).toBe(2);
    expect(await create('c', 'one')).toEqual(created);
    expect(await everySandbox()).toBe(4);
  });

  it('starts a command once, when that it was started was not yet written down', async () => {
    const { id } = await world.create();
    const keep = world.records.calls.keepAnswer.bind(world.records.calls);
    world.records.calls.keepAnswer = () => new Promise(() => undefined);
    const exec = () => collect(world.control.exec(request('e'), { id, command: 'increment' }));
    const start = () => world.control.startProcess(request('s'), { id, command: 'increment' });
    const first = await exec();
    void start();
    await eventually(
      () => world.exec(id, 'read'),
      (read) => read === '2',
    );
    world.records.calls.keepAnswer = keep;
    world.newControl();
    expect(await exec()).toEqual(first);
    const { processId } = await start();
    expect((await world.processes(id, true)).filter((one) => one.processId === processId)).toHaveLength(1);
    expect(await world.exec(id, 'read')).toBe('2');
  });

  const places = [1, 2, 3, 4, 5].flatMap((nth) => steps.map((step) => [nth, step] as const));

  it.each(places)('in the making of copy %i of five (%s) makes all five, from one instant', async (nth, step) => {
    const { id } = await world.create();
    await world.count(id, 3);
    for (let i = 1; i < nth; i++) world.node.faults.holdNext(step).letGo();
    const held = world.node.faults.holdNext(step);
    const fork = () => world.control.forkSandbox(request('f'), { id, count: 5 });
    const lost = fork().catch(() => undefined);
    await held.reached;
    await world.count(id);
    world.newControl();
    const again = fork();
    held.letGo();
    const results = await again;
    await lost;
    await eventually(
      () => world.leftovers(),
      ({ inFlight }) => inFlight.length === 0,
    );
    const copies = results.map((one) => ('sandbox' in one ? one.sandbox : null));
    expect(copies.map((copy) => copy?.status)).toEqual(Array(5).fill('running'));
    expect(new Set(copies.map((copy) => copy?.id)).size).toBe(5);
    expect(new Set(copies.map((copy) => copy?.forkedFrom?.snapshotId)).size).toBe(1);
    for (const copy of copies) if (copy !== null) expect(world.node.counterOf(copy.id)).toBe(3);
    expect(await everySandbox()).toBe(6);
    expect(await fork()).toEqual(results);
    expect(world.node.claimedMib).toBe(0);
    await world.control.start();
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('and killed again while it makes the rest makes all of them in the end', async () => {
    const { id } = await world.create();
    const fork = () => world.control.forkSandbox(request('f'), { id, count: 3 });
    const lost: Promise<unknown>[] = [];
    const holds = [];
    for (let i = 0; i < 3; i++) {
      const held = world.node.faults.holdNext('start');
      holds.push(held);
      lost.push(fork().catch(() => undefined));
      await held.reached;
      world.newControl();
    }
    for (const held of holds) held.letGo();
    const results = await fork();
    await Promise.all(lost);
    expect(results.filter((one) => 'sandbox' in one)).toHaveLength(3);
    await world.control.start();
    expect(await everySandbox()).toBe(4);
  });

  it('tells of a copy that failed before, and of one that was deleted since, what became of it', async () => {
    const { id } = await world.create();
    const keep = world.records.calls.keepAnswer.bind(world.records.calls);
    world.records.calls.keepAnswer = async () => undefined;
    world.node.faults.failNext('start', new AppError('snapshot_unfit', 'as asked'));
    const fork = () => world.control.forkSandbox(request('f'), { id, count: 3 });
    const first = await fork();
    const made = first.flatMap((one) => ('sandbox' in one ? [one.sandbox.id] : []));
    await world.remove(made[0] ?? '');
    world.records.calls.keepAnswer = keep;
    world.newControl();
    const codes = (await fork()).map((one) => ('error' in one ? one.error.code : one.sandbox.id));
    expect(codes.toSorted()).toEqual(['not_found', 'snapshot_unfit', made[1]].toSorted());
  });

  it('makes the copy that failed for a while', async () => {
    const { id } = await world.create();
    const keep = world.records.calls.keepAnswer.bind(world.records.calls);
    world.records.calls.keepAnswer = async () => undefined;
    world.node.faults.failNext('start', new AppError('restore_failed', 'as asked'));
    const fork = () => world.control.forkSandbox(request('f'), { id, count: 2 });
    await fork();
    world.records.calls.keepAnswer = keep;
    world.newControl();
    expect((await fork()).filter((one) => 'sandbox' in one)).toHaveLength(2);
    expect(await world.records.allSandboxes()).toHaveLength(3);
  });

  it('makes no other sandbox in place of one that was deleted since', async () => {
    const keep = world.records.calls.keepAnswer.bind(world.records.calls);
    world.records.calls.keepAnswer = async () => undefined;
    const { id } = await create('c');
    world.records.calls.keepAnswer = keep;
    world.newControl();
    await world.remove(id);
    await expect(create('c')).rejects.toMatchObject({ code: 'not_found' });
    expect(await world.records.allSandboxes()).toEqual([]);
  });
});
