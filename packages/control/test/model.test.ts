/**
 * Random histories against a model: one sandbox, its counter, and what each of its points remembers. Any command may meet
 * a fault at any step, the VM may crash, and control may be restarted; whatever was acknowledged holds, and whatever failed
 * either took place or did not.
 */
import { AppError, DEFAULT_VAULT } from '@space/core';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { eventually, NO_LEFTOVERS, World } from './test-world.ts';

const FAULTS = ['start', 'start done', 'snapshot', 'snapshot done', 'pause', 'pause done', 'rewind', 'rewind done'];

const anyStep = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ kind: 'count' as const }) },
  { weight: 3, arbitrary: fc.constantFrom({ kind: 'pause' as const }, { kind: 'resume' as const }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('snapshot' as const), named: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('rewind' as const, 'fork' as const), pick: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('drop' as const), pick: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('fault' as const), step: fc.constantFrom(...FAULTS) }) },
  { weight: 1, arbitrary: fc.constantFrom({ kind: 'crash' as const }, { kind: 'restart' as const }) },
);
type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never;

class History {
  readonly world = new World();
  /** What the sandbox may hold now: more than one value after a failure that may or may not have taken place. */
  may: ReadonlySet<number> = new Set([0]);
  readonly points = new Map<string, ReadonlySet<number>>();
  /** What any point may ever have held, also those that nobody was told of. */
  readonly #held = new Set<number>();
  id = '';
  #names = 0;

  async begin(): Promise<void> {
    await this.world.control.start();
    this.id = (await this.world.create()).id;
  }

  async take(step: Step): Promise<void> {
    if (step.kind !== 'count') for (const value of this.may) this.#held.add(value);
    switch (step.kind) {
      case 'count':
        return this.#count();
      case 'pause':
        await this.world.pause(this.id);
        return;
      case 'resume':
        await this.world.resume(this.id);
        return;
      case 'snapshot': {
        const { id } = await this.world.snapshot(this.id, step.named ? `name-${this.#names++}` : undefined);
        this.points.set(id, this.may);
        return;
      }
      case 'rewind':
        return this.#rewind(step.pick);
      case 'fork':
        return this.#fork(step.pick);
      case 'drop': {
        const point = this.#pick(step.pick);
        if (point === undefined) return;
        await this.world.control.deleteSnapshot(this.world.caller(), { id: point });
        this.points.delete(point);
        return;
      }
      case 'fault':
        this.world.node.faults.failNext(step.step, new AppError('internal', 'injected'));
        return;
      case 'crash':
        return this.#crash();
      case 'restart':
        await this.world.control.close();
        await this.world.newControl().start();
    }
  }

  /** Each fault strikes once, so the retries come to an end. */
  async resumeAtLast(faults: number): Promise<void> {
    for (let left = faults; left > 0; left--) {
      const { status } = await this.world.resume(this.id).catch(() => ({ status: 'failed' }));
      if (status === 'running') return;
    }
    await this.world.resume(this.id);
  }

  async check(): Promise<void> {
    const { world, id } = this;
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
    const { id: sandboxId, status } = await world.get(id);
    const { real } = await world.node.inspect(DEFAULT_VAULT, sandboxId);
    expect(status).toBe(real);
    if (real === 'running') expect(this.may).toContain(world.node.counterOf(sandboxId));
    const timeline = new Set((await world.timeline(id)).map((point) => point.id as string));
    for (const point of this.points.keys()) expect(timeline).toContain(point);
  }

  async #count(): Promise<void> {
    await this.world.exec(this.id, 'increment');
    this.may = new Set([...this.may].map((value) => value + 1));
  }

  async #rewind(pick: number): Promise<void> {
    const point = this.#pick(pick);
    if (point === undefined) return;
    const before = this.may;
    const remembered = this.points.get(point) ?? new Set();
    this.may = new Set([...before, ...remembered]);
    const { kept } = await this.world.rewind(this.id, point);
    this.may = remembered;
    if (kept !== null) this.points.set(kept.id, before);
  }

  async #fork(pick: number): Promise<void> {
    const point = this.#pick(pick);
    const remembered = point === undefined ? this.may : this.points.get(point);
    for (const result of await this.world.fork(this.id, 2, point)) {
      if ('error' in result) continue;
      expect(remembered).toContain(this.world.node.counterOf(result.sandbox.id));
      await this.world.remove(result.sandbox.id);
    }
  }

  async #crash(): Promise<void> {
    const { id, status } = await this.world.get(this.id);
    if (status !== 'running') return;
    this.world.node.crash(id);
    await eventually(
      () => this.world.get(id),
      (sandbox) => sandbox.status === 'crashed',
    );
    // What is resumed is a point of its line or the bare disk; which of them depends on what failed before.
    this.may = new Set([0, ...this.#held]);
  }

  #pick(pick: number): string | undefined {
    return [...this.points.keys()][pick % Math.max(1, this.points.size)];
  }
}

it('keeps what was acknowledged through any history', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 30 }), async (steps) => {
      const history = new History();
      await history.begin();
      for (const step of steps) {
        await history.take(step).catch((thrown: unknown) => {
          // A refusal or an injected fault; an assertion is neither.
          if (!(thrown instanceof AppError)) throw thrown;
        });
        await history.check();
      }
      await history.resumeAtLast(steps.length);
      await history.check();
      await history.world.remove(history.id);
      expect(history.world.node.sandboxIds()).toEqual([]);
      await history.world.control.close();
    }),
    { numRuns: 200 },
  );
});
