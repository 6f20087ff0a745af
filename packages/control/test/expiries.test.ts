/** Sandboxes end at their expiry, under a clock that the test turns. */
import type { SandboxId } from '@space/core';
import { AppError } from '@space/core';
import { FakeGateway } from '@space/testkit';
import { describe, expect, it } from 'vitest';
import { ActivityLog } from '../src/activity.ts';
import { Admission } from '../src/admission.ts';
import { Nursery } from '../src/birth.ts';
import { Driver } from '../src/driver.ts';
import { Effects } from '../src/effects.ts';
import { Expiries } from '../src/expiries.ts';
import { LifecycleUseCases } from '../src/lifecycle-use-cases.ts';
import { Metrics } from '../src/metrics.ts';
import { Network } from '../src/network.ts';
import { PauseFailures } from '../src/pause-failures.ts';
import { Reconciler } from '../src/reconcile.ts';
import { Pins } from '../src/timeline.ts';
import { Vaults } from '../src/vaults.ts';
import { World } from './test-world.ts';

const ignore = () => undefined;
const START = Date.UTC(2026, 0, 1);

/** Control’s machinery with rounds that the test begins. */
class Clockwork extends World {
  #nowMs = START;
  #expiries = this.#newExpiries();

  #newExpiries(): Expiries {
    const { node, records, chance } = this;
    const clock = { now: () => this.#nowMs, monotonicMs: () => this.#nowMs };
    const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
    const ports = { node, records, chance, clock, logger };
    const metrics = new Metrics();
    const reconciler: Reconciler = new Reconciler(ports, (id) => driver.owns(id), metrics, new Vaults(ports));
    const driver = new Driver(ports, metrics, (orphan) => reconciler.recover(orphan));
    const admission = new Admission(ports);
    const machinery = {
      ...{ ports, driver, effects: new Effects(ports, admission), pins: new Pins() },
      ...{ nursery: new Nursery(ports, driver, admission), activity: new ActivityLog(clock) },
      network: new Network(ports, new FakeGateway()),
      vaults: new Vaults(ports),
    };
    this.sandboxes = new LifecycleUseCases(machinery);
    this.reconciler = reconciler;
    return new Expiries(machinery, new PauseFailures(ports));
  }

  declare sandboxes: LifecycleUseCases;
  declare reconciler: Reconciler;

  at(seconds: number): string {
    return new Date(START + seconds * 1000).toISOString();
  }

  async make(seconds: number, action: 'pause' | 'delete' = 'pause'): Promise<SandboxId> {
    const expiry = { at: this.at(seconds), action };
    return (await this.sandboxes.createSandbox(this.gated(), { expiry })).id as SandboxId;
  }

  putOff(id: SandboxId, seconds: number | null) {
    const expiry = seconds === null ? null : { at: this.at(seconds), action: 'pause' as const };
    return this.control.updateSandbox(this.caller(), { id, expiry });
  }

  /** What is begun may be under way when this returns. */
  async begin(seconds: number): Promise<void> {
    this.#nowMs += seconds * 1000;
    await this.#expiries.round();
  }

  async round(seconds = 0): Promise<void> {
    await this.begin(seconds);
    await this.#expiries.settled();
  }

  /** As after a kill -9. */
  restart(): void {
    this.#expiries = this.#newExpiries();
  }
}

describe('an expiry', () => {
  it('pauses what runs at its time, with a last point that it goes on from, and is cleared', async () => {
    const world = new Clockwork();
    const id = await world.make(60);
    await world.count(id, 2);
    await world.round(59);
    expect(await world.get(id)).toMatchObject({ status: 'running', expiry: { at: world.at(60), action: 'pause' } });
    await world.round(1);
    expect(await world.get(id)).toMatchObject({ status: 'paused', expiry: null });
    const [last] = await world.timeline(id);
    expect(last).toMatchObject({ cause: 'pause', state: 'good' });
    const { operations } = await world.control.listOperations(world.caller(), { limit: 10 });
    expect(operations[0]).toMatchObject({ kind: 'pause', cause: 'expiry', state: 'succeeded' });
    // The next use wakes it, and nothing ends it then.
    expect(await world.exec(id, 'read')).toBe('2');
    await world.round(3600);
    expect(await world.get(id)).toMatchObject({ status: 'running' });
  });

  it('deletes, in whatever state it is; its named snapshots stay', async () => {
    const world = new Clockwork();
    const [running, paused, crashed] = [
      await world.make(60, 'delete'),
      await world.make(60, 'delete'),
      await world.make(60, 'delete'),
    ];
    const kept = await world.snapshot(running, 'kept');
    await world.pause(paused);
    world.node.crash(crashed);
    await world.reconciler.reconcile();
    await world.round(60);
    for (const id of [running, paused, crashed])
      await expect(world.get(id)).rejects.toMatchObject({ code: 'not_found' });
    expect((await world.control.getSnapshot(world.caller(), { id: 'kept' })).id).toBe(kept.id);
  });

  it('whose pause fails again and again is said by the sandbox, with the way out, until it can be paused', async () => {
    const world = new Clockwork();
    const id = await world.make(60);
    const before = await world.snapshot(id);
    for (let i = 0; i < 100; i++)
      world.node.faults.failNext('pause', new AppError('agent_lost', 'The agent did not answer in 25000 ms.'));
    const attempts = () => world.node.faults.steps.filter((step) => step === 'pause').length;
    await world.round(60);
    while (attempts() < 2) await world.round(1);
    expect((await world.get(id)).pauseFailure).toBeNull();
    while (attempts() < 3) await world.round(1);
    const told = { code: 'agent_lost', attempts: 3, nextStep: expect.stringContaining('keepPresent: false') };
    expect(await world.get(id)).toMatchObject({ status: 'running', pauseFailure: told, expiry: { action: 'pause' } });
    for (let minutes = 0; minutes < 60; minutes++) await world.round(60);
    expect(attempts()).toBeGreaterThan(5);
    expect(attempts()).toBeLessThan(30);
    expect((await world.get(id)).pauseFailure).toMatchObject({ attempts: attempts() });
    // By the way out that it names; then the expiry is met as it was asked.
    await world.sandboxes.rewindSandbox(world.gated(), { id, to: before.id, keepPresent: false });
    expect((await world.get(id)).pauseFailure).toBeNull();
    world.node.faults.clear('pause');
    await world.round(600);
    expect(await world.get(id)).toMatchObject({ status: 'paused', pauseFailure: null, expiry: null });
  });

  it('can be put off or called off up to the last moment, also while its pause waits for its turn', async () => {
    const world = new Clockwork();
    const [later, never] = [await world.make(60), await world.make(60)];
    await world.putOff(later, 120);
    await world.putOff(never, null);
    await world.round(60);
    for (const id of [later, never]) expect((await world.get(id)).status).toBe('running');

    const held = world.node.faults.holdNext('snapshot');
    const snapshot = world.sandboxes.takeSnapshot(world.gated(), { id: later });
    await held.reached;
    await world.begin(60);
    held.letGo();
    await snapshot;
    await world.begin(0);
    await world.putOff(later, 600);
    await world.round();
    const seen = await world.get(later);
    // Whichever came first, it was not shortened: paused at its time, or running until the new one.
    if (seen.status === 'running') expect(seen.expiry).toEqual({ at: world.at(600), action: 'pause' });
    await world.round(600);
    expect(await world.get(later)).toMatchObject({ status: 'paused' });
  });

  it('that fails is tried again, and one that a death cut off is met by the next process', async () => {
    const world = new Clockwork();
    const id = await world.make(60);
    world.node.faults.failNext('pause', new AppError('agent_lost', 'silent'));
    await world.round(60);
    expect(await world.get(id)).toMatchObject({ status: 'running', expiry: { at: world.at(60) } });
    world.restart();
    await world.round(60);
    expect(await world.get(id)).toMatchObject({ status: 'paused', expiry: null });
  });

  it('of what is paused or has crashed is met: there is nothing to pause', async () => {
    const world = new Clockwork();
    const [paused, crashed] = [await world.make(60), await world.make(60)];
    await world.pause(paused);
    world.node.crash(crashed);
    await world.reconciler.reconcile();
    await world.round(60);
    expect(await world.get(paused)).toMatchObject({ status: 'paused', expiry: null });
    expect(await world.get(crashed)).toMatchObject({ status: 'crashed', expiry: null });
  });

  it('is neither copied by a fork nor put back by a rewind', async () => {
    const world = new Clockwork();
    const id = await world.make(60);
    const point = await world.snapshot(id);
    const [child] = await world.fork(id);
    expect(child).toMatchObject({ sandbox: { expiry: null } });
    await world.putOff(id, 120);
    await world.rewind(id, point.id);
    expect((await world.get(id)).expiry).toEqual({ at: world.at(120), action: 'pause' });
  });
});
