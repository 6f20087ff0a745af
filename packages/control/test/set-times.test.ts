/** What happens at set times, under a clock that the test turns: nothing here waits for time to pass. */
import { AppError, type SandboxId } from '@space/core';
import { FakeGateway } from '@space/testkit';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ActivityLog } from '../src/activity.ts';
import { Admission } from '../src/admission.ts';
import { Nursery } from '../src/birth.ts';
import { Driver } from '../src/driver.ts';
import { Effects } from '../src/effects.ts';
import { LifecycleUseCases } from '../src/lifecycle-use-cases.ts';
import { Metrics } from '../src/metrics.ts';
import { Network } from '../src/network.ts';
import { Reconciler } from '../src/reconcile.ts';
import { ScheduleRuns } from '../src/schedule-runs.ts';
import { ScheduleUseCases } from '../src/schedule-use-cases.ts';
import { SetWakes } from '../src/set-wakes.ts';
import { Pins } from '../src/timeline.ts';
import { Vaults } from '../src/vaults.ts';
import { eventually, World } from './test-world.ts';

const ignore = () => undefined;
const START = Date.UTC(2026, 0, 1);
const MINUTE = 60;
const HOUR = 3600;

/** What control is made of, with rounds that the test begins, and processes that it kills. */
class Clockwork extends World {
  #nowMs = START;
  #monotonicMs = 0;
  readonly #ports = {
    node: this.node,
    records: this.records,
    chance: this.chance,
    clock: { now: () => this.#nowMs, monotonicMs: () => this.#monotonicMs },
    logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
  };
  #process = this.#newProcess();

  #newProcess() {
    const ports = this.#ports;
    const metrics = new Metrics();
    const reconciler: Reconciler = new Reconciler(ports, (id) => driver.owns(id), metrics, new Vaults(ports));
    const driver = new Driver(ports, metrics, (orphan) => reconciler.recover(orphan));
    const admission = new Admission(ports);
    const machinery = {
      ports,
      driver,
      effects: new Effects(ports, admission),
      nursery: new Nursery(ports, driver, admission),
      pins: new Pins(),
      activity: new ActivityLog(ports.clock),
      network: new Network(ports, new FakeGateway()),
      vaults: new Vaults(ports),
    };
    const sandboxes = new LifecycleUseCases(machinery);
    return {
      reconciler,
      sandboxes,
      activity: machinery.activity,
      schedules: new ScheduleUseCases(ports, sandboxes),
      wakes: new SetWakes(machinery),
      runs: new ScheduleRuns(machinery),
    };
  }

  /** As after a kill -9: what the old process had under way is let go of, whatever it awaits. */
  async restart(): Promise<void> {
    this.#process.runs.close();
    this.#process = this.#newProcess();
    await this.#process.reconciler.reconcile();
  }

  at(seconds: number): string {
    return new Date(START + seconds * 1000).toISOString();
  }

  async make(input: Parameters<World['create']>[0] = {}): Promise<SandboxId> {
    return (await this.#process.sandboxes.createSandbox(this.gated(), input)).id as SandboxId;
  }

  setWake(id: SandboxId, wakeAt: string | null) {
    return this.control.updateSandbox(this.caller(), { id, wakeAt });
  }

  schedule(id: SandboxId, cron: string, more: object = {}) {
    return this.#process.schedules.createSchedule(this.caller(), {
      id,
      cron,
      timeZone: 'UTC',
      catchUp: 'once',
      enabled: true,
      ...more,
    });
  }

  async change(id: SandboxId, changes: object) {
    const { schedules } = await this.#process.schedules.listSchedules(this.caller(), { id });
    const [{ id: scheduleId } = { id: '' }] = schedules;
    return this.#process.schedules.updateSchedule(this.caller(), { id, scheduleId: scheduleId as never, ...changes });
  }

  async drop(id: SandboxId) {
    const { schedules } = await this.#process.schedules.listSchedules(this.caller(), { id });
    const [{ id: scheduleId } = { id: '' }] = schedules;
    return this.#process.schedules.deleteSchedule(this.caller(), { id, scheduleId: scheduleId as never });
  }

  /** Of the one schedule of the sandbox. */
  async shown(id: SandboxId) {
    const { schedules } = await this.#process.schedules.listSchedules(this.caller(), { id });
    const [schedule] = schedules;
    if (schedule === undefined) throw new Error('it has no schedule');
    return schedule;
  }

  async states(id: SandboxId): Promise<string[]> {
    return (await this.shown(id)).lastRuns.map(({ state }) => state);
  }

  /** The wall clock alone, as when somebody sets it. */
  jump(seconds: number): void {
    this.#nowMs += seconds * 1000;
  }

  pass(seconds: number): void {
    this.jump(seconds);
    this.#monotonicMs += seconds * 1000;
  }

  /** What is begun may be under way when this returns. */
  async begin(): Promise<void> {
    await this.#process.wakes.round();
    await this.#process.runs.round();
  }

  /** After so many seconds; returns when what can come to rest has. */
  async round(seconds = 0): Promise<void> {
    this.pass(seconds);
    await this.begin();
    await new Promise((resolve) => setTimeout(resolve, 15));
  }

  async status(id: SandboxId): Promise<string> {
    return (await this.get(id)).status;
  }

  /** Whether it may fall asleep now, after a round in which it took nothing. */
  async mayBePaused(id: SandboxId): Promise<boolean> {
    const sandbox = await this.records.findSandbox(id);
    if (sandbox === null) throw new Error('it is gone');
    const { activity } = this.#process;
    const sample = { at: new Date(), cpuPercent: 0, memoryBytes: 0, diskBytes: 0, outgoingBytes: 0 };
    activity.sampled(sandbox, sample);
    this.pass(1);
    activity.sampled(sandbox, sample);
    return activity.isIdle({ ...sandbox, pauseAfterMs: 1 });
  }

  /** What was begun by itself. */
  async causes(): Promise<string[]> {
    const { operations } = await this.control.listOperations(this.caller(), { limit: 50 });
    return operations.flatMap(({ kind, cause }) => (cause === null ? [] : [`${kind} ${cause}`]));
  }
}

describe('a time to wake', () => {
  it('wakes the paused sandbox, once, and is cleared', async () => {
    const world = new Clockwork();
    const id = await world.make();
    await world.setWake(id, world.at(60));
    await world.pause(id);
    await world.round(59);
    expect(await world.status(id)).toBe('paused');
    expect((await world.get(id)).wakeAt).toBe(world.at(60));
    await world.round(1);
    expect(await world.status(id)).toBe('running');
    expect((await world.get(id)).wakeAt).toBeNull();
    await world.pause(id);
    await world.round(1000);
    expect(await world.causes()).toEqual(['resume wake_at']);
    expect(await world.status(id)).toBe('paused');
  });

  it('is cleared and does nothing when the sandbox runs, also when it had passed at the create', async () => {
    const world = new Clockwork();
    const id = await world.make({ wakeAt: world.at(60) });
    await world.round(60);
    expect((await world.get(id)).wakeAt).toBeNull();
    const born = await world.make({ wakeAt: world.at(-5) });
    expect((await world.get(born)).wakeAt).toBeNull();
    expect(await world.causes()).toEqual([]);
  });

  it('that came during a pause wakes it again', async () => {
    const world = new Clockwork();
    const id = await world.make({ wakeAt: world.at(60) });
    const held = world.node.faults.holdNext('pause');
    const pausing = world.pause(id);
    await held.reached;
    await world.round(60);
    held.letGo();
    await pausing;
    await world.round(1);
    expect(await world.status(id)).toBe('running');
  });

  it('can be moved and taken away', async () => {
    const world = new Clockwork();
    const id = await world.make({ wakeAt: world.at(60) });
    await world.pause(id);
    await world.setWake(id, world.at(120));
    await world.round(60);
    expect(await world.status(id)).toBe('paused');
    await world.setWake(id, null);
    await world.round(1000);
    expect(await world.status(id)).toBe('paused');
  });

  it('is met after the platform was down, and after the clock was set forward; not early after it was set back', async () => {
    const world = new Clockwork();
    const [late, jumped] = [await world.make({ wakeAt: world.at(60) }), await world.make({ wakeAt: world.at(HOUR) })];
    await world.pause(late);
    await world.pause(jumped);
    world.pass(600);
    await world.restart();
    await world.round();
    expect(await world.status(late)).toBe('running');
    world.jump(-3600);
    await world.round(1);
    expect(await world.status(jumped)).toBe('paused');
    world.jump(2 * HOUR);
    await world.round(1);
    expect(await world.status(jumped)).toBe('running');
  });

  it('is not lost by a wake that fails, which is tried again after a growing pause', async () => {
    const world = new Clockwork();
    const id = await world.make({ wakeAt: world.at(60) });
    await world.pause(id);
    for (let i = 0; i < 3; i++) world.node.faults.failNext('start', new AppError('insufficient_space', 'as asked'));
    await world.round(60);
    for (let i = 0; i < 7; i++) await world.round(1);
    expect(await world.status(id)).toBe('running');
    expect(world.node.faults.steps.filter((step) => step === 'start')).toHaveLength(1 + 4);
  });

  it('is given up when trying again is no use, and the failed operation says so', async () => {
    const world = new Clockwork();
    const id = await world.make({ wakeAt: world.at(60) });
    await world.pause(id);
    world.node.faults.failNext('start', new AppError('snapshot_bad', 'as asked'));
    await world.round(60);
    await world.round(1000);
    expect(await world.status(id)).toBe('paused');
    expect((await world.get(id)).wakeAt).toBeNull();
  });

  it('wakes nothing that crashed; what is then resumed has met it', async () => {
    const world = new Clockwork();
    const id = await world.make({ wakeAt: world.at(60) });
    world.node.crash(id);
    await world.restart();
    await world.round(61);
    expect(await world.status(id)).toBe('crashed');
    expect((await world.get(id)).wakeAt).toBe(world.at(60));
    await world.control.resumeSandbox(world.caller(), { id });
    // The control that resumes has another clock; the next round sees it run.
    await world.round(1);
    expect((await world.get(id)).wakeAt).toBeNull();
  });

  it('is neither put back by a rewind nor copied by a fork', async () => {
    const world = new Clockwork();
    const id = await world.make({ wakeAt: world.at(HOUR) });
    const { id: point } = await world.snapshot(id);
    await world.setWake(id, world.at(2 * HOUR));
    await world.records.updateSandbox(id, { wakeAt: new Date(Date.now() + 1e9) }, new Date());
    const { wakeAt } = await world.get(id);
    await world.rewind(id, point);
    expect((await world.get(id)).wakeAt).toBe(wakeAt);
    const [child] = await world.fork(id);
    expect(child).toMatchObject({ sandbox: { wakeAt: null } });
  });

  it.each(['start', 'start done'])('wakes once when the process dies in %s', async (step) => {
    const world = new Clockwork();
    const id = await world.make({ wakeAt: world.at(60) });
    await world.pause(id);
    const held = world.node.faults.holdNext(step);
    await world.round(60);
    await held.reached;
    await world.restart();
    held.letGo();
    await world.round(1);
    await world.round(1);
    expect(await world.status(id)).toBe('running');
    expect((await world.get(id)).wakeAt).toBeNull();
    await world.pause(id);
    await world.round(1000);
    expect(await world.status(id)).toBe('paused');
  });
});

describe('a schedule', () => {
  const counting = { exec: { command: 'increment' } };

  it('wakes the sandbox and runs its command at each time, and tells how it went and what comes next', async () => {
    const world = new Clockwork();
    const id = await world.make();
    expect(await world.schedule(id, '*/5 * * * *', counting)).toMatchObject({ nextRunAt: world.at(300), lastRuns: [] });
    await world.pause(id);
    await world.round(299);
    expect(await world.status(id)).toBe('paused');
    await world.round(1);
    expect(await world.exec(id, 'read')).toBe('1');
    const { lastRuns, nextRunAt } = await world.shown(id);
    expect(nextRunAt).toBe(world.at(600));
    expect(lastRuns).toMatchObject([{ state: 'succeeded', dueAt: world.at(300), exitCode: 0, error: null }]);
    await world.pause(id);
    await world.round(300);
    expect(await world.exec(id, 'read')).toBe('2');
    expect(await world.causes()).toEqual(['resume schedule', 'resume schedule']);
  });

  it('only wakes when it has no command', async () => {
    const world = new Clockwork();
    const id = await world.make();
    await world.schedule(id, '@hourly');
    await world.pause(id);
    await world.round(HOUR);
    expect(await world.status(id)).toBe('running');
    expect((await world.shown(id)).lastRuns).toMatchObject([{ state: 'succeeded', processId: null, exitCode: null }]);
  });

  it('says how a command ended that did not end well, or could not be started', async () => {
    const world = new Clockwork();
    const id = await world.make();
    await world.schedule(id, '@hourly', { exec: { command: 'exit 3' } });
    await world.round(HOUR);
    expect((await world.shown(id)).lastRuns).toMatchObject([{ state: 'failed', exitCode: 3, error: null }]);
    await world.change(id, { exec: { argv: ['/no/such/program'] } });
    await world.round(HOUR);
    const [last] = (await world.shown(id)).lastRuns;
    expect(last).toMatchObject({ state: 'failed', exitCode: null, error: { code: 'command_not_started' } });
  });

  it('skips a time while the run before goes on, keeps the sandbox awake for it, and runs again when it has ended', async () => {
    const world = new Clockwork();
    const id = await world.make();
    await world.schedule(id, '@hourly', { exec: { command: 'forever' } });
    await world.round(HOUR);
    expect(await world.mayBePaused(id)).toBe(false);
    await world.round(HOUR);
    expect(await world.states(id)).toEqual(['skipped', 'running']);
    const { processId } = (await world.shown(id)).lastRuns[1] ?? { processId: null };
    if (processId === null) throw new Error('it has no process');
    await world.node.signalProcess(id, processId, 9);
    await world.round(1);
    expect((await world.shown(id)).lastRuns[1]).toMatchObject({ state: 'failed', signal: 'SIGKILL' });
    expect(await world.mayBePaused(id)).toBe(true);
    await world.round(HOUR);
    expect(await world.states(id)).toEqual(['running', 'skipped', 'failed']);
  });

  it('makes up once for what was missed while the platform was down, or not at all', async () => {
    const world = new Clockwork();
    const [once, never] = [await world.make(), await world.make()];
    await world.schedule(once, '@hourly', counting);
    await world.schedule(never, '@hourly', { ...counting, catchUp: 'skip' });
    world.pass(10 * HOUR + 30 * MINUTE);
    await world.restart();
    await world.round();
    expect(world.node.counterOf(once)).toBe(1);
    expect(world.node.counterOf(never)).toBe(0);
    expect(await world.states(never)).toEqual(['missed']);
    expect((await world.shown(once)).nextRunAt).toBe(world.at(11 * HOUR));
    await world.round(30 * MINUTE);
    expect([world.node.counterOf(once), world.node.counterOf(never)]).toEqual([2, 1]);
  });

  it('runs once when the clock is set forward over many times, and again at its next time when it is set back', async () => {
    const world = new Clockwork();
    const id = await world.make();
    await world.schedule(id, '@hourly', counting);
    world.jump(24 * HOUR);
    await world.round();
    expect(world.node.counterOf(id)).toBe(1);
    world.jump(-24 * HOUR);
    await world.round(HOUR);
    expect(world.node.counterOf(id)).toBe(1);
    await world.change(id, { cron: '@hourly' });
    await world.round(HOUR);
    expect(world.node.counterOf(id)).toBe(2);
  });

  it('does nothing while it is not enabled, and goes on from then when it is', async () => {
    const world = new Clockwork();
    const id = await world.make();
    expect(await world.schedule(id, '@hourly', { ...counting, enabled: false })).toMatchObject({ nextRunAt: null });
    await world.round(10 * HOUR);
    expect(world.node.counterOf(id)).toBe(0);
    expect(await world.change(id, { enabled: true })).toMatchObject({ nextRunAt: world.at(11 * HOUR) });
    await world.round(HOUR);
    expect(world.node.counterOf(id)).toBe(1);
  });

  it('does not wake what crashed, and says so', async () => {
    const world = new Clockwork();
    const id = await world.make();
    await world.schedule(id, '@hourly', counting);
    world.node.crash(id);
    await world.restart();
    await world.round(HOUR);
    expect(await world.status(id)).toBe('crashed');
    expect((await world.shown(id)).lastRuns).toMatchObject([{ state: 'running' }]);
    for (let i = 0; i < 12; i++) await world.round(2 * MINUTE);
    expect((await world.shown(id)).lastRuns).toMatchObject([{ state: 'failed', error: { code: 'vm_lost' } }]);
  });

  it('tries a run again that could not be begun, for ten minutes', async () => {
    const world = new Clockwork();
    const id = await world.make();
    await world.schedule(id, '@hourly', counting);
    await world.pause(id);
    world.node.faults.failNext('start', new AppError('insufficient_space', 'as asked'));
    await world.round(HOUR);
    expect(await world.states(id)).toEqual(['running']);
    await world.round(1);
    expect(await world.states(id)).toEqual(['succeeded']);
    await world.pause(id);
    for (let i = 0; i < 50; i++) world.node.faults.failNext('start', new AppError('insufficient_space', 'as asked'));
    await world.round(HOUR);
    for (let i = 0; i < 11; i++) await world.round(MINUTE);
    const [last] = (await world.shown(id)).lastRuns;
    expect(last).toMatchObject({ state: 'failed', error: { code: 'insufficient_space' } });
  });

  it('leaves a run that a pause took away undone, and says so, once the sandbox runs', async () => {
    const world = new Clockwork();
    const id = await world.make();
    await world.schedule(id, '@hourly', { exec: { command: 'forever' } });
    await world.round(HOUR);
    await world.pause(id);
    await world.round(2);
    expect(await world.status(id)).toBe('paused');
    expect(await world.states(id)).toEqual(['running']);
    // The time that comes next wakes it. In the fake guest no process outlives a pause.
    await world.round(HOUR);
    await world.round(2);
    expect(await world.states(id)).toEqual(['skipped', 'interrupted']);
  });

  it('goes with its sandbox, and is neither copied by a fork nor changed by a rewind', async () => {
    const world = new Clockwork();
    const id = await world.make();
    const { id: point } = await world.snapshot(id);
    await world.schedule(id, '@hourly', counting);
    await world.rewind(id, point);
    expect((await world.shown(id)).cron).toBe('@hourly');
    const [child] = await world.fork(id);
    if (child === undefined || 'error' in child) throw new Error('the fork failed');
    expect(await world.control.listSchedules(world.caller(), { id: child.sandbox.id })).toEqual({ schedules: [] });
    await world.remove(id);
    await world.round(HOUR);
    expect(await world.records.schedules.due(new Date(8e15), 10)).toEqual([]);
  });

  it('that is deleted in the middle of a run leaves the command alone, and the sandbox may fall asleep', async () => {
    const world = new Clockwork();
    const id = await world.make();
    await world.schedule(id, '@hourly', { exec: { command: 'forever' } });
    await world.round(HOUR);
    await world.drop(id);
    await world.round(1);
    await world.round(1);
    expect(await world.processes(id)).toHaveLength(1);
    expect(await world.mayBePaused(id)).toBe(true);
    expect(await world.records.schedules.inProgress()).toEqual([]);
  });

  it('has at most sixteen in a sandbox', async () => {
    const world = new Clockwork();
    const id = await world.make();
    for (let i = 0; i < 16; i++) await world.schedule(id, '@hourly');
    await expect(world.schedule(id, '@hourly')).rejects.toMatchObject({ code: 'limit_reached', facts: { max: 16 } });
  });

  it.each(['start', 'start done'])('runs its command once when the process dies in %s of the wake', async (step) => {
    const world = new Clockwork();
    const id = await world.make();
    await world.schedule(id, '@hourly', counting);
    await world.pause(id);
    const held = world.node.faults.holdNext(step);
    await world.round(HOUR);
    await held.reached;
    await world.restart();
    held.letGo();
    for (let i = 0; i < 5; i++) await world.round(2);
    expect(world.node.counterOf(id)).toBe(1);
    expect(await world.states(id)).toEqual(['succeeded']);
  });

  it('runs its command once when the process dies after the start and before that was written down', async () => {
    const world = new Clockwork();
    const id = await world.make();
    await world.schedule(id, '@hourly', counting);
    const update = world.records.schedules.updateRun.bind(world.records.schedules);
    world.records.schedules.updateRun = () => new Promise(() => undefined);
    await world.round(HOUR);
    expect(world.node.counterOf(id)).toBe(1);
    world.records.schedules.updateRun = update;
    await world.restart();
    await world.round(1);
    expect(world.node.counterOf(id)).toBe(1);
    expect((await world.shown(id)).lastRuns).toMatchObject([{ state: 'succeeded', exitCode: 0 }]);
  });

  it('is followed on by the next process, to the end of its command', async () => {
    const world = new Clockwork();
    const id = await world.make();
    await world.schedule(id, '@hourly', { exec: { command: 'forever' } });
    await world.round(HOUR);
    await world.restart();
    await world.round(1);
    const { processId } = (await world.shown(id)).lastRuns[0] ?? { processId: null };
    if (processId === null) throw new Error('it has no process');
    await world.node.signalProcess(id, processId, 15);
    await world.round(1);
    expect((await world.shown(id)).lastRuns).toMatchObject([{ state: 'failed', signal: 'SIGTERM' }]);
  });
});

const anyStep = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('pass' as const), minutes: fc.integer({ min: 1, max: 90 }) }) },
  { weight: 2, arbitrary: fc.constantFrom({ kind: 'pause' as const }, { kind: 'restart' as const }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('down' as const), minutes: fc.integer({ min: 1, max: 600 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('fault' as const),
      step: fc.constantFrom('start', 'start done', 'pause'),
    }),
  },
);

it('runs each time that comes at most once and loses none, through any history of pauses, faults and deaths', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 12 }), async (steps) => {
      const world = new Clockwork();
      const id = await world.make();
      await world.schedule(id, '@hourly', { exec: { command: 'increment' } });
      const started = new Set<string>();
      const update = world.records.schedules.updateRun.bind(world.records.schedules);
      world.records.schedules.updateRun = async (runId, changes) => {
        if (changes.startedAt instanceof Date) started.add(runId);
        return update(runId, changes);
      };
      for (const step of steps) {
        if (step.kind === 'pass' || step.kind === 'down') world.pass(step.minutes * MINUTE);
        if (step.kind === 'restart' || step.kind === 'down') await world.restart();
        if (step.kind === 'pause') await world.pause(id).catch(ignore);
        if (step.kind === 'fault') world.node.faults.failNext(step.step, new AppError('restore_failed', 'injected'));
        await world.begin();
      }
      // Each fault strikes once, so what is under way comes to its end.
      for (let i = 0; i < steps.length + 3; i++) await world.round(100);
      for (let left = steps.length; left > 0; left--) await world.resume(id).catch(ignore);
      for (let i = 0; i < 3; i++) await world.round(100);
      await eventually(
        () => world.records.schedules.inProgress(),
        (left) => left.length === 0,
      );
      const { lastRuns } = await world.shown(id);
      expect(new Set(lastRuns.map(({ dueAt }) => dueAt)).size).toBe(lastRuns.length);
      // In the fake guest no process that runs outlives a pause.
      const wasPaused = steps.some(({ kind }) => kind === 'pause');
      if (!wasPaused) expect(lastRuns.map(({ state }) => state)).not.toContain('interrupted');
      expect(world.node.counterOf(id)).toBe(started.size);
      const due = steps.reduce((sum, step) => sum + ('minutes' in step ? step.minutes : 0), 0);
      if (due >= 60) expect(lastRuns).not.toEqual([]);
    }),
    // A command that was started, and paused before that was written down, is not started again by the next process.
    {
      numRuns: 30,
      examples: [[[{ kind: 'pause' }, { kind: 'pass', minutes: 60 }, { kind: 'down', minutes: 1 }, { kind: 'pause' }]]],
    },
  );
}, 60_000);
