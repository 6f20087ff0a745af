import { setTimeout } from 'node:timers/promises';
import { AppError, DEFAULT_PROJECT, type SandboxId } from '@space/core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { collect, eventually, NO_LEFTOVERS, World } from './test-world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});
afterEach(async () => {
  await world.control.close();
});

function sandboxes(results: Awaited<ReturnType<World['fork']>>) {
  return results.flatMap((result) => ('sandbox' in result ? [result.sandbox] : []));
}

describe('create, get, list', () => {
  it('creates a running sandbox with what was asked', async () => {
    const made = await world.create({ name: 'one', env: { A: '1' }, metadata: { m: 'x' }, size: { vcpus: 2 } });
    expect(made).toMatchObject({ status: 'running', name: 'one', generation: 1, head: null, forkedFrom: null });
    expect(made.size.vcpus).toBe(2);
    expect(await world.get('one')).toMatchObject({ id: made.id, env: { A: '1' }, metadata: { m: 'x' } });
    expect(made).not.toHaveProperty('env');
  });

  it('refuses an unknown template, an impossible size and a name in use, and leaves nothing', async () => {
    await world.create({ name: 'one' });
    await expect(world.create({ template: 'other' })).rejects.toMatchObject({ code: 'template_unknown' });
    await expect(world.create({ size: { vcpus: 99 } })).rejects.toMatchObject({ code: 'size_impossible' });
    await expect(world.create({ name: 'one' })).rejects.toMatchObject({ code: 'name_taken' });
    await expect(world.create({ snapshot: 'nothing' })).rejects.toMatchObject({ code: 'not_found' });
    expect(await world.records.allSandboxes()).toHaveLength(1);
  });

  it('lists page by page', async () => {
    const made = [await world.create(), await world.create(), await world.create()];
    const first = await world.control.listSandboxes(world.caller(), { limit: 2 });
    const second = await world.control.listSandboxes(world.caller(), { limit: 2, cursor: first.nextCursor ?? '' });
    expect(second.nextCursor).toBeNull();
    const ids = [...first.sandboxes, ...second.sandboxes].map(({ id }) => id);
    expect(ids.toSorted()).toEqual(made.map(({ id }) => id).toSorted());
  });

  it('starts from a snapshot by its name, with its memory', async () => {
    const source = await world.create();
    await world.count(source.id, 3);
    await world.snapshot(source.id, 'base-3');
    await world.remove(source.id);
    const made = await world.create({ snapshot: 'base-3' });
    expect(made.forkedFrom?.sandboxId).toBe(source.id);
    expect(await world.exec(made.id, 'read')).toBe('3');
  });
});

describe('a sandbox that is out of space', () => {
  const events = async () => {
    const request = { after: null, projectId: DEFAULT_PROJECT, organisationId: null, limit: 100 };
    return (await world.records.events.list(request)).map(({ kind }) => kind);
  };
  const halt = async (id: string, halted: boolean) => {
    world.node.setHalted(id as SandboxId, halted);
    const status = halted ? 'out_of_space' : 'running';
    await eventually(
      () => world.get(id),
      (seen) => seen.status === status,
    );
  };

  it('says so, in its status and as an event, and goes on by itself', async () => {
    await world.control.start();
    const { id } = await world.create();
    await world.count(id, 3);
    await halt(id, true);
    await halt(id, false);
    expect(await world.exec(id, 'read')).toBe('3');
    expect((await events()).slice(-2)).toEqual(['sandbox.out_of_space', 'sandbox.running']);
  });

  it('refuses by name what it cannot do now, keeps its limits, and is resumed, rewound or deleted', async () => {
    await world.control.start();
    const { id } = await world.create();
    const point = await world.snapshot(id);
    await halt(id, true);
    world.node.hasRoom = false;
    const refused = { code: 'out_of_space' };
    for (const call of [world.exec(id, 'read'), world.pause(id), world.snapshot(id), world.fork(id)]) {
      await expect(call).rejects.toMatchObject(refused);
    }
    await expect(world.resume(id)).rejects.toMatchObject(refused);
    await expect(world.rewind(id, point.id)).rejects.toMatchObject(refused);
    expect((await world.get(id)).status).toBe('out_of_space');
    expect((await world.control.getLimits(world.caller(), {})).present.running).toBe(1);

    world.node.hasRoom = true;
    expect((await world.resume(id)).status).toBe('running');
    await halt(id, true);
    const rewound = await world.control.rewindSandbox(world.caller(), { id, to: point.id, keepPresent: false });
    expect(rewound).toMatchObject({ sandbox: { status: 'running' }, kept: null });
    await halt(id, true);
    await world.remove(id);
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('is crashed when its VM ends', async () => {
    await world.control.start();
    const { id } = await world.create();
    await halt(id, true);
    world.node.crash(id as SandboxId);
    await eventually(
      () => world.get(id),
      ({ status }) => status === 'crashed',
    );
  });
});

it('a VM that ends while the database does not answer is recorded as soon as that does', async () => {
  const world = new World();
  await world.control.start();
  const { id } = await world.create();
  const settle = world.records.settle.bind(world.records);
  let refused = 0;
  world.records.settle = async (change) => {
    if (refused++ < 2) throw new AppError('unavailable', 'The database does not answer.');
    return settle(change);
  };
  world.node.crash(id as SandboxId);
  await eventually(
    () => world.get(id),
    ({ status }) => status === 'crashed',
  );
  expect(refused).toBe(3);
  await world.control.close();
});

describe('pause and resume', () => {
  it('keeps files alone where that is asked for, and boots then, by a use too', async () => {
    const { id } = await world.create();
    await world.count(id);
    const { head, generation } = await world.pause(id, { keep: 'files' });
    expect((await world.timeline(id))[0]).toMatchObject({ id: head, cause: 'pause', kind: 'disk', degraded: null });
    expect(await world.exec(id, 'read')).toBe('0');
    expect(await world.get(id)).toMatchObject({ status: 'running', generation });
    // One that is paused is as it is, whatever is asked for then.
    await world.count(id);
    await world.pause(id);
    await world.pause(id, { keep: 'files' });
    expect(await world.exec(id, 'read')).toBe('1');
  });

  it('brings everything back, any number of times', async () => {
    const { id } = await world.create();
    for (let round = 1; round <= 20; round++) {
      await world.count(id);
      const paused = await world.pause(id);
      expect(paused.status).toBe('paused');
      expect((await world.resume(id)).generation).toBe(1);
      expect(await world.exec(id, 'read')).toBe(String(round));
      const timeline = await world.timeline(id);
      expect(timeline).toHaveLength(round);
      expect(timeline[0]).toMatchObject({ id: paused.head, cause: 'pause', pinned: false });
    }
  });

  it('does nothing twice', async () => {
    const { id } = await world.create();
    expect((await world.resume(id)).status).toBe('running');
    const first = await world.pause(id);
    expect((await world.pause(id)).head).toBe(first.head);
  });

  it('wakes by use, once for ten callers, and not by a read', async () => {
    const { id } = await world.create();
    await world.count(id, 2);
    await world.pause(id);
    await world.get(id);
    await expect(world.processes(id)).rejects.toMatchObject({ code: 'wrong_state' });
    expect((await world.get(id)).status).toBe('paused');
    const starts = () => world.node.faults.steps.filter((step) => step === 'start').length;
    const before = starts();
    const read = await Promise.all(Array.from({ length: 10 }, () => world.exec(id, 'read')));
    expect(read).toEqual(Array.from({ length: 10 }, () => '2'));
    expect(starts() - before).toBe(1);
  });

  it('is woken again when a pause came in between, and asked once when the guest itself is in no state for it', async () => {
    const { id } = await world.create();
    const opened = () => world.node.faults.steps.filter((step) => step === 'openPort').length;
    const connect = () => world.control.connectPort(world.caller(), { id, port: 1 });
    world.node.faults.failNext(
      'openPort',
      new AppError('wrong_state', { detail: 'So says the node.', facts: { paused: true } }),
    );
    await expect(connect()).rejects.not.toMatchObject({ code: 'wrong_state' });
    expect(opened()).toBe(2);
    world.node.faults.failNext('openPort', new AppError('wrong_state', 'So says the guest.'));
    await expect(connect()).rejects.toMatchObject({ message: 'So says the guest.' });
    expect(opened()).toBe(3);
  });

  it('shares the failure of a wake among those who waited for it, and the next try works', async () => {
    const { id } = await world.create();
    await world.pause(id);
    const held = world.node.faults.holdNext('start');
    world.node.faults.failNext('start vm', new AppError('insufficient_space', 'full'));
    const reads = Promise.allSettled(Array.from({ length: 10 }, () => world.exec(id, 'read')));
    await held.reached;
    await setTimeout(10);
    held.letGo();
    const results = await reads;
    for (const result of results) expect(result).toMatchObject({ reason: { code: 'insufficient_space' } });
    expect(await world.exec(id, 'read')).toBe('0');
  });
});

describe('crash', () => {
  async function crashed(prepare: (id: string) => Promise<unknown>) {
    await world.control.start();
    const { id } = await world.create();
    await prepare(id);
    world.node.crash(id, 'killed by the kernel');
    await eventually(
      () => world.get(id),
      ({ status }) => status === 'crashed',
    );
    return id;
  }

  it('is seen, explained, and not undone by mere use', async () => {
    const id = await crashed((sandbox) => world.count(sandbox));
    expect((await world.get(id)).crash?.detail).toBe('killed by the kernel');
    await expect(world.exec(id, 'read')).rejects.toMatchObject({ code: 'vm_lost' });
  });

  it('goes on from its newest point in a new generation', async () => {
    const id = await crashed(async (sandbox) => {
      await world.count(sandbox, 2);
      await world.snapshot(sandbox);
      await world.count(sandbox, 5);
    });
    expect(await world.resume(id)).toMatchObject({ status: 'running', generation: 2, crash: null });
    expect(await world.exec(id, 'read')).toBe('2');
  });

  it('says from which point it goes on, and from when to when what was done is lost', async () => {
    let point = '';
    let takenAt = '';
    const id = await crashed(async (sandbox) => {
      ({ id: point, takenAt } = await world.snapshot(sandbox));
      await world.count(sandbox, 5);
    });
    const { crash } = await world.get(id);
    expect(crash).toMatchObject({ resumesFrom: point, lost: { from: takenAt, to: crash?.at } });
    expect(crash?.lost?.seconds).toBe((Date.parse(crash?.at ?? '') - Date.parse(takenAt)) / 1000);
    const { sandboxes } = await world.control.listSandboxes(world.caller(), { limit: 10 });
    expect(sandboxes.find((one) => one.id === id)?.crash).toEqual(crash);
    expect((await world.resume(id)).crash).toBe(null);
  });

  it('counts no pause and nothing that was rewound as lost', async () => {
    let resumedAt = 0;
    const paused = await crashed(async (sandbox) => {
      await world.pause(sandbox);
      await setTimeout(5);
      resumedAt = Date.now();
      await world.resume(sandbox);
    });
    const { crash } = await world.get(paused);
    expect(Date.parse(crash?.lost?.from ?? '')).toBeGreaterThanOrEqual(resumedAt);
    expect(crash?.resumesFrom).toBe((await world.get(paused)).head);
  });

  it('without a point with memory says that it boots from its disk', async () => {
    const id = await crashed((sandbox) => world.count(sandbox));
    expect((await world.get(id)).crash).toMatchObject({ resumesFrom: null, lost: null });
  });

  it('goes on from its disk when it has no point of its own', async () => {
    const id = await crashed(async (sandbox) => {
      await world.count(sandbox, 2);
      const bytes = (async function* () {
        yield Buffer.from('kept');
      })();
      await world.control.writeFile(world.caller(), { id: sandbox, path: '/f' }, bytes);
    });
    await world.resume(id);
    expect(await world.exec(id, 'read')).toBe('0');
    const { body } = await world.control.readFile(world.caller(), { id, path: '/f' });
    expect(Buffer.concat(await Array.fromAsync(body)).toString()).toBe('kept');
  });

  it('after a rewind does not bring back what was rewound', async () => {
    const id = await crashed(async (sandbox) => {
      await world.count(sandbox, 1);
      const point = await world.snapshot(sandbox);
      await world.count(sandbox, 5);
      await world.rewind(sandbox, point.id);
    });
    await world.resume(id);
    expect(await world.exec(id, 'read')).toBe('1');
  });
});

describe('snapshot', () => {
  it('forms a line of parents, newest first', async () => {
    const { id } = await world.create();
    const a = await world.snapshot(id);
    const b = await world.snapshot(id, 'b');
    const { head: paused } = await world.pause(id);
    await world.resume(id);
    const c = await world.snapshot(id);
    const timeline = await world.timeline(id);
    expect(timeline.map((point) => [point.id, point.parent])).toEqual([
      [c.id, paused],
      [paused, b.id],
      [b.id, a.id],
      [a.id, null],
    ]);
    expect((await world.get(id)).head).toBe(c.id);
  });

  it('of a paused sandbox labels the point that it is paused at, which then stays', async () => {
    const { id } = await world.create();
    const paused = await world.pause(id);
    const snapshot = await world.snapshot(id, 'kept');
    expect(snapshot).toMatchObject({ id: paused.head, name: 'kept', cause: 'snapshot' });
    await expect(world.snapshot(id, 'again')).rejects.toMatchObject({ code: 'wrong_state' });
    await world.resume(id);
    await world.pause(id);
    expect((await world.timeline(id)).map((point) => point.id)).toContain(snapshot.id);
  });

  it('with a name in use does nothing at all', async () => {
    const { id } = await world.create();
    await world.snapshot(id, 'n');
    await expect(world.snapshot(id, 'n')).rejects.toMatchObject({ code: 'name_taken' });
    expect(world.node.pointIds()).toHaveLength(1);
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('is deleted, unless its sandbox is paused at it', async () => {
    const { id } = await world.create();
    const a = await world.snapshot(id);
    const b = await world.snapshot(id);
    await world.control.deleteSnapshot(world.caller(), { id: a.id });
    expect(world.node.pointIds()).not.toContain(a.id);
    expect((await world.timeline(id)).map((point) => [point.id, point.parent])).toEqual([[b.id, null]]);
    const { head } = await world.pause(id);
    const deletion = world.control.deleteSnapshot(world.caller(), { id: head ?? '' });
    await expect(deletion).rejects.toMatchObject({ code: 'snapshot_in_use' });
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });
});

describe('a snapshot that is deleted', () => {
  it('is gone before its point is: one that resists is nobody’s, and is removed later', async () => {
    const { id } = await world.create();
    const a = await world.snapshot(id, 'a');
    world.node.faults.failNext('deletePoint');
    await world.control.deleteSnapshot(world.caller(), { id: a.id });
    expect(await world.timeline(id)).toEqual([]);
    expect((await world.records.history.doomed(10, new Date())).map((point) => point.id)).toEqual([a.id]);
  });

  it('is not listed when the process dies in the middle', async () => {
    const { id } = await world.create();
    const a = await world.snapshot(id, 'a');
    const held = world.node.faults.holdNext('deletePoint');
    void world.control.deleteSnapshot(world.caller(), { id: a.id }).catch(() => undefined);
    await held.reached;
    world.newControl();
    expect(await world.timeline(id)).toEqual([]);
    held.letGo();
  });
});

describe('fork', () => {
  it('that cannot be begun lets go of the point', async () => {
    const { id } = await world.create();
    const point = await world.snapshot(id);
    vi.spyOn(world.records, 'addSandboxes').mockRejectedValueOnce(new AppError('unavailable', 'no database'));
    await expect(world.fork(id, 1, point.id)).rejects.toMatchObject({ code: 'unavailable' });
    await world.control.deleteSnapshot(world.caller(), { id: point.id });
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('makes running copies that share nothing, from one instant', async () => {
    const { id } = await world.create({ env: { A: 'x' }, metadata: { m: 'y' } });
    await world.count(id, 3);
    const children = sandboxes(await world.fork(id, 5));
    expect(new Set(children.map((child) => child.id)).size).toBe(5);
    await world.count(id);
    for (const [index, child] of children.entries()) {
      expect(child).toMatchObject({ generation: 1, name: null, metadata: { m: 'y' } });
      expect(child.forkedFrom?.sandboxId).toBe(id);
      await world.count(child.id, index);
      expect(await world.exec(child.id, 'read')).toBe(String(3 + index));
      expect(await world.exec(child.id, 'env A')).toBe('x');
    }
    expect(await world.exec(id, 'read')).toBe('4');
  });

  it('takes one snapshot of a running source, and none of a paused one, which stays paused', async () => {
    const { id } = await world.create();
    await world.fork(id, 3);
    expect(world.node.pointIds()).toHaveLength(1);
    const { head } = await world.pause(id);
    const [child] = sandboxes(await world.fork(id));
    expect(child?.forkedFrom?.snapshotId).toBe(head);
    expect((await world.get(id)).status).toBe('paused');
  });

  it('starts from a past point, and from one that was inherited', async () => {
    const { id } = await world.create();
    await world.count(id, 1);
    const past = await world.snapshot(id, 'past');
    await world.count(id, 5);
    const [child] = sandboxes(await world.fork(id, 1));
    const [grandchild] = sandboxes(await world.fork(child?.id ?? '', 1, past.id));
    expect(await world.exec(grandchild?.id ?? '', 'read')).toBe('1');
    const stranger = await world.create();
    await expect(world.fork(stranger.id, 1, past.id)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('gives a result or an error per child, and leaves nothing of those that failed', async () => {
    const { id } = await world.create();
    world.node.faults.failNext('start', new AppError('insufficient_memory', 'full'));
    const results = await world.fork(id, 3);
    expect(results.filter((result) => 'error' in result)).toMatchObject([{ error: { code: 'insufficient_memory' } }]);
    expect(sandboxes(results)).toHaveLength(2);
    expect(await world.records.allSandboxes()).toHaveLength(3);
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('reserves memory for all before it touches the source, and gives back what no child took up', async () => {
    const { id, size } = await world.create();
    world.node.memoryMib = 3 * size.memoryMib;
    const steps = world.node.faults.steps.length;
    await expect(world.fork(id, 3)).rejects.toMatchObject({ code: 'insufficient_memory' });
    expect(world.node.faults.steps.slice(steps)).toEqual(['reserveMemory']);
    world.node.faults.failNext('start', new AppError('restore_failed', 'as asked'));
    expect(sandboxes(await world.fork(id, 2))).toHaveLength(1);
    expect(world.node.claimedMib).toBe(0);
    expect(sandboxes(await world.fork(id, 1))).toHaveLength(1);
  });

  it('names the file in an error about one', async () => {
    const { id } = await world.create();
    const stat = world.control.statFile(world.caller(), { id, path: 'no/such', follow: true });
    const facts = { path: 'no/such' };
    await expect(stat).rejects.toMatchObject({ code: 'file_not_found', facts, message: /^"no\/such": / });
    const list = world.control.listFiles(world.caller(), { id, path: 'none', depth: 1 });
    await expect(Array.fromAsync(list)).rejects.toMatchObject({ code: 'file_not_found', message: /^"none": / });
  });

  it('throws when no child was made', async () => {
    const { id } = await world.create();
    world.node.faults.failNext('start', new AppError('insufficient_memory', 'full'));
    await expect(world.fork(id, 1)).rejects.toMatchObject({ code: 'insufficient_memory' });
    expect((await world.get(id)).status).toBe('running');
  });

  it('children outlive their source, and the source its children', async () => {
    const { id } = await world.create();
    await world.count(id, 2);
    const [a, b] = sandboxes(await world.fork(id, 2));
    await world.remove(a?.id ?? '');
    expect(await world.exec(id, 'read')).toBe('2');
    await world.remove(id);
    await world.pause(b?.id ?? '');
    expect(await world.exec(b?.id ?? '', 'read')).toBe('2');
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });
});

describe('rewind', () => {
  it('goes back in a new generation, and is undone by another', async () => {
    const { id } = await world.create();
    await world.count(id, 1);
    const point = await world.snapshot(id, 'p');
    await world.count(id, 4);
    const { sandbox, kept } = await world.rewind(id, 'p');
    expect(sandbox).toMatchObject({ status: 'running', generation: 2, head: point.id });
    expect(kept).toMatchObject({ cause: 'rewind', parent: point.id, generation: 1 });
    expect(await world.exec(id, 'read')).toBe('1');
    await world.rewind(id, kept?.id ?? '');
    expect(await world.exec(id, 'read')).toBe('5');
    expect((await world.get(id)).generation).toBe(3);
  });

  it('of a paused sandbox keeps the point that it was paused at', async () => {
    const { id } = await world.create();
    const point = await world.snapshot(id);
    await world.count(id, 4);
    const { head } = await world.pause(id);
    const { sandbox, kept } = await world.rewind(id, point.id);
    expect(sandbox.status).toBe('running');
    expect(kept).toMatchObject({ id: head, cause: 'rewind' });
    await world.pause(id);
    await world.rewind(id, head ?? '');
    expect(await world.exec(id, 'read')).toBe('4');
  });

  it('of a child goes back to before the fork', async () => {
    const { id } = await world.create();
    const past = await world.snapshot(id);
    await world.count(id, 2);
    const [child] = sandboxes(await world.fork(id));
    await world.rewind(child?.id ?? '', past.id);
    expect(await world.exec(child?.id ?? '', 'read')).toBe('0');
  });

  it('refuses a point of another timeline', async () => {
    const [a, b] = [await world.create(), await world.create()];
    const point = await world.snapshot(a.id);
    await expect(world.rewind(b.id, point.id)).rejects.toMatchObject({ code: 'not_found' });
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });
});

describe('delete', () => {
  it('takes the sandbox with its unnamed points and leaves the named', async () => {
    const { id } = await world.create();
    await world.snapshot(id);
    const named = await world.snapshot(id, 'named');
    await world.pause(id);
    await world.remove(id);
    await expect(world.get(id)).rejects.toMatchObject({ code: 'not_found' });
    await expect(world.remove(id)).rejects.toMatchObject({ code: 'not_found' });
    // The others are doomed: removed one by one, while nobody waits.
    const doomed = (await world.records.history.doomed(10, new Date())).map((point) => point.id);
    expect(new Set(world.node.pointIds())).toEqual(new Set([named.id, ...doomed]));
    expect(doomed).toHaveLength(2);
    const listed = await world.control.listSnapshots(world.caller(), { limit: 10 });
    expect(listed.snapshots.map((one) => [one.id, one.parent])).toEqual([[named.id, null]]);
  });

  it('is one, when two ask at the same time', async () => {
    const { id } = await world.create();
    await Promise.all([world.remove(id), world.remove(id), world.remove(id)]);
    expect(world.node.faults.steps.filter((step) => step === 'destroy')).toHaveLength(1);
  });
});

describe('commands', () => {
  it('see the environment of the sandbox, and their own over it', async () => {
    const { id } = await world.create({ env: { A: 'sandbox', B: 'sandbox' } });
    expect(await world.exec(id, 'env A')).toBe('sandbox');
    expect(await world.exec(id, 'env B', { env: { B: 'own' } })).toBe('own');
  });

  it('are killed when their time has passed, and say so', async () => {
    const { id } = await world.create();
    const events = await collect(world.execEvents(id, 'forever', { timeoutMs: 20 }));
    expect(events.at(-1)).toEqual({ kind: 'exited', exit: { signal: 9 }, timedOut: true, oom: false });
    expect(await world.processes(id)).toEqual([]);
    const inTime = await collect(world.execEvents(id, 'exit 3', { timeoutMs: 10_000 }));
    expect(inTime.at(-1)).toEqual({ kind: 'exited', exit: { code: 3 }, timedOut: false, oom: false });
  });

  it('are started without waiting, attached to, given input, and listed with their end', async () => {
    const { id } = await world.create();
    const caller = world.caller();
    const { processId } = await world.control.startProcess(caller, { id, command: 'cat', stdin: true });
    expect(await world.processes(id)).toMatchObject([{ processId, leaderAlive: true }]);
    async function* body() {
      yield Buffer.alloc(70_000, 'a');
      yield Buffer.from('end');
    }
    const write = (offset?: number) =>
      world.control.writeInput(
        caller,
        { id, processId, eof: offset !== undefined, ...(offset === undefined ? {} : { offset }) },
        body(),
      );
    expect(await write()).toEqual({ acceptedBytes: 70_003 });
    // Repeated, it changes nothing; and it goes on from there.
    expect(await write(0)).toEqual({ acceptedBytes: 70_003 });
    const events = await collect(world.attach(id, processId, 70_000));
    expect(events.slice(1)).toEqual([
      { kind: 'output', stream: 'stdout', offset: 70_000, data: Buffer.from('end') },
      { kind: 'exited', exit: { code: 0 }, timedOut: false, oom: false },
    ]);
    expect(await world.processes(id)).toEqual([]);
    expect(await world.processes(id, true)).toMatchObject([{ processId, end: { exit: { code: 0 } } }]);
    await expect(write(70_003)).rejects.toMatchObject({ code: 'input_closed' });
  });

  it('are not listed by waking a paused sandbox; attaching wakes it', async () => {
    const { id } = await world.create();
    const { processId } = await world.control.startProcess(world.caller(), { id, command: 'forever' });
    await world.pause(id);
    await expect(world.processes(id)).rejects.toMatchObject({ code: 'wrong_state' });
    expect((await world.get(id)).status).toBe('paused');
    // The fake's processes do not live through a pause.
    await expect(collect(world.attach(id, processId))).rejects.toMatchObject({ code: 'not_found' });
    expect((await world.get(id)).status).toBe('running');
  });

  it('run on when their stream is let go of, at once', async () => {
    const { id } = await world.create();
    const events = world.execEvents(id, 'forever')[Symbol.asyncIterator]();
    expect((await events.next()).value).toMatchObject({ kind: 'started' });
    const pending = events.next();
    await events.return?.();
    expect(await pending).toEqual({ done: true, value: undefined });
    const processes = await world.processes(id);
    expect(processes).toHaveLength(1);
    const [{ processId } = { processId: undefined }] = processes;
    if (processId === undefined) throw new Error('there is one');
    await world.control.signalProcess(world.caller(), { id, processId, signal: 'SIGTERM', target: 'tree' });
    expect(await world.processes(id)).toEqual([]);
  });

  it('end typed when the sandbox is paused under them', async () => {
    const { id } = await world.create();
    const events = world.execEvents(id, 'forever')[Symbol.asyncIterator]();
    await events.next();
    const end = events.next();
    await Promise.all([expect(end).rejects.toMatchObject({ code: 'link_lost' }), world.pause(id)]);
  });
});

describe('the installation', () => {
  it('says what it can do and whether it is ready', async () => {
    const { limits } = await world.control.getCapabilities(world.caller(), {});
    expect(limits.forkCount.max).toBe(20);
    expect((await world.control.listTemplates(world.caller(), {})).templates).toMatchObject([{ name: 'base' }]);
    expect((await world.control.readiness()).ready).toBe(true);
    world.records.failing = true;
    const { ready, checks } = await world.control.readiness();
    expect(ready).toBe(false);
    expect(checks.find((one) => one.name === 'database')).toMatchObject({ ready: false });
    world.records.failing = false;
  });

  it('refuses new work once it closes', async () => {
    const { id } = await world.create();
    await world.control.close();
    await expect(world.create()).rejects.toMatchObject({ code: 'unavailable' });
    await expect(world.pause(id)).rejects.toMatchObject({ code: 'unavailable' });
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });
});
