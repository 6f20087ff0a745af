/** How sandboxes wake when there is not memory for all: by turns of the organisations, in bounded time, on a fake node. */
import { AppError, DEFAULT_ORGANISATION, newId, type OrganisationId, type SandboxId } from '@space/core';
import { realClock, seededChance } from '@space/testkit';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Admission } from '../src/admission.ts';
import { eventually, NO_LEFTOVERS, World } from './test-world.ts';

const SIZE_MIB = 512;
const chance = seededChance(3);
const organisations = [1, 2, 3].map(() => newId('organisation', chance));

/** Memory for so many, and a count of how many have it at once. */
class Memory {
  readonly totalMib: number;
  readonly held = new Map<SandboxId, number>();
  mostMib = 0;

  constructor(totalMib: number) {
    this.totalMib = totalMib;
  }

  get heldMib(): number {
    return [...this.held.values()].reduce((sum, mib) => sum + mib, 0);
  }

  hold(sandboxId: SandboxId, mib: number): void {
    if (!this.held.has(sandboxId) && this.heldMib + mib > this.totalMib)
      throw new AppError('insufficient_memory', 'full');
    this.held.set(sandboxId, mib);
    this.mostMib = Math.max(this.mostMib, this.heldMib);
  }

  readonly node = {
    reserveMemory: async (claims: readonly { sandboxId: SandboxId; memoryMib: number }[]) => {
      for (const { sandboxId, memoryMib } of claims) this.hold(sandboxId, memoryMib);
    },
    releaseMemory: async () => undefined,
  };
}

interface Wake {
  readonly organisation: OrganisationId;
  readonly memoryMib: number;
}

/** All wakes at once; each keeps its memory for a moment. Returns in which order they had it, and what failed. */
async function wakeAll(memory: Memory, wakes: readonly Wake[], waitMs = 20_000) {
  const admission = new Admission({ node: memory.node, clock: realClock(), waitMs });
  const order: OrganisationId[] = [];
  let most = 0;
  let now = 0;
  const results = await Promise.allSettled(
    wakes.map(({ organisation, memoryMib }) => {
      const sandboxId = newId('sandbox', chance);
      return admission.wake({ sandboxId, memoryMib, organisation: async () => organisation }, async () => {
        memory.hold(sandboxId, memoryMib);
        order.push(organisation);
        most = Math.max(most, ++now);
        await new Promise((resolve) => setTimeout(resolve, 1));
        now--;
        setTimeout(() => memory.held.delete(sandboxId), 1);
      });
    }),
  );
  const failed = results.flatMap((one) => (one.status === 'rejected' ? [(one.reason as AppError).code] : []));
  return { order, failed, most, waiting: admission.waiting };
}

describe('wakes', () => {
  it('all come to an end, within the memory, a few at once', async () => {
    const anyWake = fc.record({
      organisation: fc.constantFrom(...organisations),
      memoryMib: fc.constantFrom(256, 512, 1024),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(anyWake, { maxLength: 12 }), fc.constantFrom(1024, 2048), async (wakes, totalMib) => {
        const memory = new Memory(totalMib);
        const { order, failed, most, waiting } = await wakeAll(memory, wakes);
        expect(failed).toEqual([]);
        expect(order).toHaveLength(wakes.length);
        expect(memory.mostMib).toBeLessThanOrEqual(totalMib);
        expect(most).toBeLessThanOrEqual(4);
        expect(waiting).toBe(0);
      }),
      { numRuns: 10 },
    );
  });

  it('of one organisation, however many, do not hold up those of another', async () => {
    const [flooding, other] = organisations as [OrganisationId, OrganisationId];
    const wakes = [...Array(30).fill(flooding), other].map((organisation) => ({ organisation, memoryMib: SIZE_MIB }));
    const { order, failed } = await wakeAll(new Memory(SIZE_MIB), wakes);
    expect(failed).toEqual([]);
    // Behind those that had begun when it came, and one that was before it in turn.
    expect(order.indexOf(other)).toBeLessThanOrEqual(5);
  });

  it('that find no memory in time fail as such, and those behind them too', async () => {
    const memory = new Memory(SIZE_MIB);
    memory.hold(newId('sandbox', chance), SIZE_MIB);
    const wakes = organisations.map((organisation) => ({ organisation, memoryMib: SIZE_MIB }));
    const { order, failed, waiting } = await wakeAll(memory, wakes, 50);
    expect({ order, failed, waiting }).toEqual({ order: [], failed: Array(3).fill('insufficient_memory'), waiting: 0 });
  });

  it('beyond what the queue holds are refused at once, of one organisation and not of the others', async () => {
    const [flooding, other] = organisations as [OrganisationId, OrganisationId];
    const memory = new Memory(SIZE_MIB);
    const blocker = newId('sandbox', chance);
    memory.hold(blocker, SIZE_MIB);
    setTimeout(() => memory.held.delete(blocker), 300);
    const many = [...Array(230).fill(flooding), other].map((organisation) => ({ organisation, memoryMib: 1 }));
    const { order, failed } = await wakeAll(memory, many);
    expect(failed.length).toBeGreaterThanOrEqual(20);
    expect(new Set(failed)).toEqual(new Set(['insufficient_memory']));
    expect(order).toContain(other);
  });
});

describe('a paused sandbox', () => {
  it('wakes when another gives memory back, and whoever comes anew has to wait for it', async () => {
    const world = new World();
    const a = await world.create();
    const b = await world.create();
    await world.count(b.id, 3);
    await world.pause(b.id);
    world.node.memoryMib = SIZE_MIB;
    const woken = world.exec(b.id, 'read');
    await eventually(
      () => world.get(b.id),
      ({ status }) => status === 'resuming',
    );
    await expect(world.create()).rejects.toMatchObject({ code: 'insufficient_memory' });
    await world.pause(a.id);
    expect(await woken).toBe('3');
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('that waits to wake is deleted at once when that is asked', async () => {
    const world = new World();
    await world.create();
    const b = await world.create();
    await world.pause(b.id);
    world.node.memoryMib = SIZE_MIB;
    const woken = world.exec(b.id, 'read').catch((error: AppError) => error.code);
    await eventually(
      () => world.get(b.id),
      ({ status }) => status === 'resuming',
    );
    await world.remove(b.id);
    world.node.memoryMib = 2 * SIZE_MIB;
    expect(await woken).toBe('superseded');
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('takes no memory, and listing, getting, metrics and timelines wake none of two hundred', {
    timeout: 60_000,
  }, async () => {
    const COUNT = 200;
    const world = new World();
    const all: string[] = [];
    for (let count = 0; count < COUNT; count++) {
      const { id } = await world.create();
      await world.pause(id);
      all.push(id);
    }
    const starts = () => world.node.faults.steps.filter((step) => step === 'start vm').length;
    const before = starts();
    expect((await world.node.capabilities()).memory.promisedMib).toBe(0);
    const { sandboxes } = await world.control.listSandboxes(world.caller(), { limit: 100 });
    expect(sandboxes).toHaveLength(100);
    for (const id of all) {
      expect((await world.get(id)).status).toBe('paused');
      expect((await world.control.getSandboxMetrics(world.caller(), { id })).now).toBeNull();
      expect(await world.control.getSandboxConsole(world.caller(), { id })).toEqual({ text: null });
      expect(await world.timeline(id)).toHaveLength(1);
      await expect(world.processes(id)).rejects.toMatchObject({ code: 'wrong_state' });
    }
    await world.control.getMetrics(world.caller(), {});
    expect(starts()).toBe(before);
    expect((await world.node.capabilities()).memory.promisedMib).toBe(0);
    // They are all there: any of them wakes.
    expect(await world.exec(all[100] as string, 'read')).toBe('0');
  });

  it('forks into a hundred copies, each of its own', { timeout: 60_000 }, async () => {
    const world = new World();
    const source = await world.create();
    await world.count(source.id, 7);
    const copies = await world.fork(source.id, 100);
    const ids = copies.map((copy) => ('sandbox' in copy ? copy.sandbox.id : null));
    expect(new Set(ids).size).toBe(100);
    expect(ids).not.toContain(null);
    for (const [index, id] of ids.entries()) if (id !== null) await world.count(id, index % 3);
    for (const [index, id] of ids.entries())
      if (id !== null) expect(await world.exec(id, 'read')).toBe(`${7 + (index % 3)}`);
    expect(await world.exec(source.id, 'read')).toBe('7');
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });
});

it('of a project, whoever asks, belong to its organisation', async () => {
  const world = new World();
  const { projectId } = world.caller();
  expect(await world.records.tenants.organisationOf(projectId)).toBe(DEFAULT_ORGANISATION);
});
