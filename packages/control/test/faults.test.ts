/** Races, faults at each step, and restarts in the middle: each ends at rest, loses nothing, and lets the retry work. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, newId, type SandboxId } from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inspectReal } from '../src/conclude.ts';
import { eventually, NO_LEFTOVERS, World } from './test-world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});
afterEach(async () => {
  await world.control.close();
});

const VERBS = ['pause', 'resume', 'snapshot', 'rewind', 'fork', 'delete'] as const;
type Verb = (typeof VERBS)[number];

/** A sandbox that has counted to 2, with a point at 1 named after the sandbox. */
async function prepared(state: 'running' | 'paused' = 'running') {
  const { id } = await world.create();
  await world.count(id);
  const point = await world.snapshot(id);
  await world.count(id);
  if (state === 'paused') await world.pause(id);
  return { id, point: point.id };
}

function act(verb: Verb, { id, point }: { id: string; point: string }): Promise<unknown> {
  switch (verb) {
    case 'pause':
      return world.pause(id);
    case 'resume':
      return world.resume(id);
    case 'snapshot':
      return world.snapshot(id);
    case 'rewind':
      return world.rewind(id, point);
    case 'fork':
      return world.fork(id, 2);
    case 'delete':
      return world.remove(id);
  }
}

const EXPECTED_CODES = ['not_found', 'superseded', 'wrong_state', 'operation_in_progress'];

describe('two commands at once', () => {
  for (const first of VERBS) {
    for (const second of VERBS) {
      for (const state of ['running', 'paused'] as const) {
        it(`${first} and ${second} of a ${state} sandbox`, async () => {
          const sandbox = await prepared(state);
          const results = await Promise.allSettled([act(first, sandbox), act(second, sandbox)]);
          for (const result of results) {
            if (result.status === 'rejected') expect(EXPECTED_CODES).toContain((result.reason as AppError).code);
          }
          expect(results.some((result) => result.status === 'fulfilled')).toBe(true);
          expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
          if (first === 'delete' || second === 'delete') {
            await expect(world.get(sandbox.id)).rejects.toMatchObject({ code: 'not_found' });
          } else {
            const count = Number(await world.exec(sandbox.id, 'read'));
            expect(count).toBe(first === 'rewind' || second === 'rewind' ? 1 : 2);
          }
        });
      }
    }
  }

  it('delete wins over whatever the node is doing', async () => {
    for (const step of ['pause', 'snapshot', 'rewind', 'start', 'pause done', 'rewind done', 'start done']) {
      const verb = step.split(' ')[0];
      const sandbox = await prepared(verb === 'start' ? 'paused' : 'running');
      const held = world.node.faults.holdNext(step);
      const slow = act(verb === 'start' ? 'resume' : (verb as Verb), sandbox);
      slow.catch(() => undefined);
      await held.reached;
      await world.remove(sandbox.id);
      await expect(world.get(sandbox.id)).rejects.toMatchObject({ code: 'not_found' });
      held.letGo();
      await expect(slow).rejects.toMatchObject({ code: 'superseded' });
      expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
    }
  });

  it('a delete that fails is not taken back: the sandbox stays gone for others, and the next round finishes it', async () => {
    const { id, point } = await prepared();
    const held = world.node.faults.holdNext('destroy');
    const deleting = world.remove(id);
    const refused = expect(deleting).rejects.toMatchObject({ code: 'internal' });
    await held.reached;
    const uses = [() => world.exec(id, 'read'), () => world.fork(id, 1, point), () => world.timeline(id)];
    for (const use of uses) await expect(use()).rejects.toMatchObject({ code: 'not_found' });
    world.node.faults.failNext('destroy done', new AppError('internal', 'injected'));
    held.letGo();
    await refused;
    for (const use of uses) await expect(use()).rejects.toMatchObject({ code: 'not_found' });
    expect((await world.get(id)).status).toBe('deleting');
    await world.newControl().start();
    await expect(world.get(id)).rejects.toMatchObject({ code: 'not_found' });
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('delete wins over a create that waits for its template', async () => {
    const held = world.node.faults.holdNext('ensureReady');
    const creating = world.create({ name: 'slow' });
    creating.catch(() => undefined);
    await held.reached;
    expect((await world.get('slow')).status).toBe('creating');
    await world.remove('slow');
    held.letGo();
    await expect(creating).rejects.toMatchObject({ code: 'superseded' });
    expect(world.node.sandboxIds()).toEqual([]);
  });

  it('a command waits for another, and runs on a sandbox that is being snapshotted', async () => {
    const { id } = await prepared();
    const held = world.node.faults.holdNext('snapshot');
    const snapshot = world.snapshot(id);
    await held.reached;
    expect(await world.exec(id, 'read')).toBe('2');
    const pausing = world.pause(id);
    await sleep(20);
    expect((await world.get(id)).status).toBe('running');
    held.letGo();
    await Promise.all([snapshot, pausing]);
    expect((await world.get(id)).status).toBe('paused');
  });

  it('a caller that goes away ends its waiting, not the operation', async () => {
    const { id } = await prepared();
    const held = world.node.faults.holdNext('pause');
    const pausing = world.pause(id);
    await held.reached;
    const gone = new AbortController();
    const waiting = world.control.resumeSandbox(world.caller(gone.signal), { id });
    gone.abort();
    await expect(waiting).rejects.toThrow();
    held.letGo();
    expect((await pausing).status).toBe('paused');
  });
});

describe('a fault', () => {
  const cases: readonly (readonly [Verb, 'running' | 'paused', readonly string[]])[] = [
    ['pause', 'running', ['pause', 'pause done']],
    ['resume', 'paused', ['start', 'start done']],
    ['snapshot', 'running', ['snapshot', 'snapshot done']],
    ['rewind', 'running', ['rewind', 'rewind done']],
    ['rewind', 'paused', ['rewind', 'rewind done']],
    ['fork', 'running', ['snapshot', 'snapshot done']],
  ];
  for (const [verb, state, steps] of cases) {
    for (const step of steps) {
      it(`at "${step}" of ${verb} leaves the ${state} sandbox in what is real, and the retry works`, async () => {
        const sandbox = await prepared(state);
        world.node.faults.failNext(step, new AppError('internal', 'injected'));
        await expect(act(verb, sandbox)).rejects.toMatchObject({ code: 'internal' });
        expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
        const recorded = await world.records.findSandbox((await world.get(sandbox.id)).id);
        if (recorded === null) throw new Error('it is recorded');
        const { real } = await inspectReal(world.node, recorded);
        expect(recorded).toMatchObject({ operation: null, settled: real === 'absent' ? 'crashed' : real });
        await act(verb, sandbox);
        expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
        expect(await world.exec(sandbox.id, 'read')).toBe(verb === 'rewind' ? '1' : '2');
      });
    }
  }

  for (const state of ['running', 'paused'] as const) {
    for (const step of ['destroy', 'destroy done']) {
      it(`at "${step}" leaves the delete of a ${state} sandbox in progress, and a second one finishes it`, async () => {
        const { id } = await prepared(state);
        world.node.faults.failNext(step, new AppError('internal', 'injected'));
        await expect(world.remove(id)).rejects.toMatchObject({ code: 'internal' });
        expect((await world.get(id)).status).toBe('deleting');
        await world.remove(id);
        await expect(world.get(id)).rejects.toMatchObject({ code: 'not_found' });
        expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
      });
    }
  }

  it('in create leaves nothing, and the name is free', async () => {
    for (const step of ['ensureReady', 'start', 'start done']) {
      world.node.faults.failNext(step, new AppError('boot_failed', 'injected'));
      await expect(world.create({ name: 'again' })).rejects.toMatchObject({ code: 'boot_failed' });
      expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
      expect(world.node.sandboxIds()).toEqual([]);
    }
    await world.create({ name: 'again' });
  });

  it('of the database at the end is healed when it is back', async () => {
    for (const verb of ['rewind', 'delete'] as const) {
      const sandbox = await prepared();
      const held = world.node.faults.holdNext(`${verb === 'delete' ? 'destroy' : verb} done`);
      const acting = act(verb, sandbox);
      acting.catch(() => undefined);
      await held.reached;
      world.records.failing = true;
      held.letGo();
      await expect(acting).rejects.toMatchObject({ code: 'unavailable' });
      world.records.failing = false;
      expect(await world.leftovers()).not.toEqual(NO_LEFTOVERS);
      if (verb === 'delete') await world.remove(sandbox.id);
      else expect(await world.exec(sandbox.id, 'read')).toBe('1');
      expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
    }
  }, 60_000);

  it('of the database for a moment is not noticed', async () => {
    const { id } = await prepared();
    const held = world.node.faults.holdNext('pause done');
    const pausing = world.pause(id);
    await held.reached;
    world.records.failing = true;
    held.letGo();
    await sleep(60);
    world.records.failing = false;
    expect((await pausing).status).toBe('paused');
  });
});

describe('a restart', () => {
  const steps: readonly (readonly [Verb, 'running' | 'paused', string])[] = [
    ['pause', 'running', 'pause'],
    ['pause', 'running', 'pause done'],
    ['resume', 'paused', 'start'],
    ['resume', 'paused', 'start done'],
    ['snapshot', 'running', 'snapshot'],
    ['snapshot', 'running', 'snapshot done'],
    ['rewind', 'running', 'rewind'],
    ['rewind', 'running', 'rewind done'],
    ['rewind', 'paused', 'rewind done'],
    ['delete', 'running', 'destroy'],
    ['delete', 'running', 'destroy done'],
  ];
  for (const [verb, state, step] of steps) {
    it(`in ${verb} of a ${state} sandbox, at "${step}", ends it by what is real`, async () => {
      const sandbox = await prepared(state);
      // The old process is never heard of again.
      world.node.faults.holdNext(step);
      act(verb, sandbox).catch(() => undefined);
      await eventually(
        async () => world.node.faults.steps.at(-1),
        (last) => last === step,
      );
      const report = await world.newControl().start();
      expect(report).toMatchObject({ recovered: 1, unknown: [] });
      expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
      if (verb === 'delete') {
        await expect(world.get(sandbox.id)).rejects.toMatchObject({ code: 'not_found' });
        return;
      }
      const took = step.endsWith('done');
      expect(await world.exec(sandbox.id, 'read')).toBe(verb === 'rewind' && took ? '1' : '2');
      await act(verb, sandbox);
      expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
    });
  }

  it('in create keeps what runs and forgets what does not', async () => {
    for (const step of ['start', 'start done']) {
      world = new World();
      world.node.faults.holdNext(step);
      world.create({ name: 'new' }).catch(() => undefined);
      await eventually(
        async () => world.node.faults.steps.at(-1),
        (last) => last === step,
      );
      await world.newControl().start();
      if (step === 'start') await expect(world.get('new')).rejects.toMatchObject({ code: 'not_found' });
      else expect(await world.exec('new', 'read')).toBe('0');
      expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
      await world.control.close();
    }
  });

  it('is not needed by a command that meets what a dead process left', async () => {
    const sandbox = await prepared();
    world.node.faults.holdNext('pause done');
    world.pause(sandbox.id).catch(() => undefined);
    await eventually(
      async () => world.node.faults.steps.at(-1),
      (last) => last === 'pause done',
    );
    world.newControl();
    expect(await world.exec(sandbox.id, 'read')).toBe('2');
  });

  it('finds VMs that ended meanwhile, and removes what is deleted', async () => {
    const [a, b, gone] = [await prepared(), await prepared('paused'), await prepared()];
    await world.control.close();
    const recordOf = async (id: string) => (await world.get(id)).id;
    world.node.crash(await recordOf(a.id));
    const goneId = await recordOf(gone.id);
    // A delete whose effect was lost with the node's memory.
    const seen = await world.records.findSandbox(goneId);
    if (seen === null) throw new Error('it is there');
    const operationId = newId('operation', world.chance);
    const at = new Date();
    await world.records.beginOperation({
      seen,
      operation: 'delete',
      operationId,
      input: {},
      taking: null,
      by: null,
      at,
    });
    await world.records.endOperation({
      sandboxId: goneId,
      operationId,
      epoch: seen.epoch + 1,
      settled: 'deleted',
      outcome: 'ok',
      errorCode: null,
      timings: null,
      changes: {},
      points: [],
      dropped: [],
      doomed: [],
      at,
    });
    await world.newControl().start();
    expect((await world.get(a.id)).status).toBe('crashed');
    expect((await world.get(b.id)).status).toBe('paused');
    expect(world.node.sandboxIds()).not.toContain(goneId);
  });

  it('takes one whose record the node cannot read for what it was; its points can be forked, and it can be deleted', async () => {
    const { id, point } = await prepared();
    world.node.unreadable.add(id as SandboxId);
    await world.newControl().start();
    expect((await world.get(id)).status).toBe('running');
    await expect(world.exec(id, 'read')).rejects.toMatchObject({ code: 'record_bad' });
    const [copy] = await world.fork(id, 1, point);
    if (copy === undefined || !('sandbox' in copy)) throw new Error('it was not forked');
    expect(await world.exec(copy.sandbox.id, 'read')).toBe('1');
    await world.remove(id);
    expect(world.node.sandboxIds()).not.toContain(id);
  });

  it('leaves alone what it does not know, and calls nothing gone that it cannot see', async () => {
    const stranger = new World();
    const strange = await stranger.create();
    const { id } = await world.create();
    const ours = world.records;
    // The same node, seen by records that never heard of its sandbox.
    const lost = new World();
    Object.assign(lost, { node: stranger.node, records: ours });
    const report = await lost.newControl().start();
    expect(report?.unknown).toEqual([strange.id]);
    expect(stranger.node.sandboxIds()).toContain(strange.id);
    const kept = await lost.get(id);
    expect(kept.status).toBe('crashed');
    expect(kept.crash?.detail).toMatch(/does not hold/);
    await lost.control.close();
    await stranger.control.close();
  });
});
