import { AppError, type SandboxId } from '@space/core';
import { describe, expect, it } from 'vitest';
import { Sampler } from '../src/sampler.ts';
import { World } from './test-world.ts';

const ignore = () => undefined;

function makeSampler(world: World) {
  let nowMs = 1_000_000;
  const clock = { now: () => nowMs, monotonicMs: () => nowMs };
  const { node, records, chance } = world;
  const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
  const sampler = new Sampler({ node, records, chance, clock, logger });
  return {
    sampler,
    async round() {
      nowMs += 10_000;
      return sampler.sample(await records.allSandboxes());
    },
    async metrics(id: SandboxId) {
      const sandbox = await records.findSandbox(id);
      if (sandbox === null) throw new Error('there is no such sandbox');
      return sampler.metrics(sandbox);
    },
  };
}

describe('the sampler', () => {
  it('tells processor time by the window between two readings of one life', async () => {
    const world = new World();
    const id = (await world.create()).id as SandboxId;
    const { round, metrics } = makeSampler(world);
    expect((await metrics(id)).now).toMatchObject({ cpuPercent: null });
    expect((await round()).size).toBe(0);
    world.node.work(id, 2_500);
    expect((await round()).get(id)).toMatchObject({ cpuPercent: 25 });
    await round();
    const { history } = await metrics(id);
    expect(history.map(({ cpuPercent }) => cpuPercent)).toEqual([25, 0]);
    await world.pause(id);
    await world.resume(id);
    expect((await round()).has(id)).toBe(false);
  });

  it('wakes nobody, has nothing of a paused sandbox, and keeps its history', async () => {
    const world = new World();
    const id = (await world.create()).id as SandboxId;
    const { round, metrics } = makeSampler(world);
    await round();
    await round();
    await world.pause(id);
    expect((await round()).size).toBe(0);
    expect(await metrics(id)).toMatchObject({ now: null, history: [{ cpuPercent: 0 }] });
    expect(await world.get(id)).toMatchObject({ status: 'paused' });
  });

  it('keeps an hour of samples, and nothing of what was deleted', async () => {
    const world = new World();
    const id = (await world.create()).id as SandboxId;
    const { round, metrics, sampler } = makeSampler(world);
    for (let i = 0; i < 400; i++) await round();
    expect((await metrics(id)).history.length).toBe(360);
    const sandbox = await world.records.findSandbox(id);
    await world.remove(id);
    await round();
    if (sandbox !== null) expect((await sampler.metrics({ ...sandbox, settled: 'paused' })).history).toEqual([]);
  });

  it('goes on with the others when one cannot be read', async () => {
    const world = new World();
    const ids = [(await world.create()).id, (await world.create()).id] as SandboxId[];
    const { round } = makeSampler(world);
    await round();
    world.node.faults.failNext('usage', new AppError('internal', 'as asked'));
    expect((await round()).size).toBe(1);
    await round();
    expect([...(await round()).keys()].sort()).toEqual(ids.sort());
  });
});
