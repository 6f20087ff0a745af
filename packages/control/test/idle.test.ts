/** The pauses of idle sandboxes, under a clock that the test turns: nothing here waits for time to pass. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { AppError, DEFAULT_PROJECT, type ProcessEvent, type SandboxId } from '@space/core';
import { FakeGateway } from '@space/testkit';
import { describe, expect, it } from 'vitest';
import { ActivityLog } from '../src/activity.ts';
import { Admission } from '../src/admission.ts';
import { Nursery } from '../src/birth.ts';
import { Checkpoints } from '../src/checkpoints.ts';
import { Driver } from '../src/driver.ts';
import { Effects } from '../src/effects.ts';
import { FileUseCases } from '../src/file-use-cases.ts';
import { GrantWatch } from '../src/grant-watch.ts';
import { GuestUseCases } from '../src/guest-use-cases.ts';
import { IdempotentCalls } from '../src/idempotency.ts';
import { IdlePauses } from '../src/idle-pauses.ts';
import { LifecycleUseCases } from '../src/lifecycle-use-cases.ts';
import { Metrics } from '../src/metrics.ts';
import { Network } from '../src/network.ts';
import { PauseFailures } from '../src/pause-failures.ts';
import { PortUseCases } from '../src/port-use-cases.ts';
import { Sampler } from '../src/sampler.ts';
import { Pins } from '../src/timeline.ts';
import { Vaults } from '../src/vaults.ts';
import { World } from './test-world.ts';

const ignore = () => undefined;
const QUICK = { idle: { pauseAfterMs: 30_000 } };

/** What control is made of, with rounds that the test begins. */
class Idle extends World {
  #nowMs = 1_700_000_000_000;
  readonly #ports = {
    node: this.node,
    records: this.records,
    chance: this.chance,
    clock: { now: () => this.#nowMs, monotonicMs: () => this.#nowMs },
    logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
  };
  readonly #driver = new Driver(this.#ports, new Metrics(), async () => undefined);
  readonly #admission = new Admission(this.#ports);
  readonly #machinery = {
    ports: this.#ports,
    driver: this.#driver,
    effects: new Effects(this.#ports, this.#admission),
    nursery: new Nursery(this.#ports, this.#driver, this.#admission),
    pins: new Pins(),
    activity: new ActivityLog(this.#ports.clock),
    network: new Network(this.#ports, new FakeGateway()),
    vaults: new Vaults(this.#ports),
  };
  readonly sandboxes = new LifecycleUseCases(this.#machinery);
  readonly guests = new GuestUseCases(this.#machinery, this.sandboxes, {
    calls: new IdempotentCalls(this.#ports, async () => undefined, {
      sealAnswer: async ({ answer }) => answer,
      openAnswer: async (_row, kept) => kept,
    }),
    checkpoints: new Checkpoints(this.#machinery),
  });
  readonly files = new FileUseCases(this.#machinery, this.sandboxes);
  readonly ports = new PortUseCases(
    this.#machinery,
    this.sandboxes,
    new GrantWatch({ endedAmong: async () => [], end: 'It ended.', logger: this.#ports.logger }),
  );
  readonly #sampler = new Sampler(this.#ports);
  readonly #pauses = new IdlePauses(this.#machinery, this.sandboxes, new PauseFailures(this.#machinery.ports));

  async make(input: Parameters<World['create']>[0] = QUICK): Promise<SandboxId> {
    return (await this.sandboxes.createSandbox(this.gated(), input)).id as SandboxId;
  }

  /** Begins a round after so many seconds; what it began may be under way when this returns. */
  async begin(seconds = 10): Promise<void> {
    this.#nowMs += seconds * 1_000;
    const all = await this.records.allSandboxes();
    this.#pauses.round(all, await this.#sampler.sample(all));
  }

  async ended(): Promise<void> {
    await this.#pauses.settled();
  }

  async rounds(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      await this.begin();
      await this.ended();
    }
  }

  async status(id: SandboxId): Promise<string> {
    return (await this.get(id)).status;
  }

  async start(id: SandboxId, command: string, keepAwake = false) {
    return this.guests.startProcess(this.gated(), { id, command, keepAwake });
  }

  /** A stream of which the first event has come. */
  async open(id: SandboxId, command: string): Promise<AsyncIterator<ProcessEvent>> {
    const iterator = this.guests.exec(this.gated(), { id, command })[Symbol.asyncIterator]();
    await iterator.next();
    return iterator;
  }
}

describe('an idle sandbox', () => {
  it('is paused by the ordinary pause, which says that it was idle, and its state is kept', async () => {
    const idle = new Idle();
    const id = await idle.make();
    await idle.rounds(2);
    expect(await idle.status(id)).toBe('running');
    await idle.rounds(4);
    expect(await idle.status(id)).toBe('paused');
    const { operations } = await idle.control.listOperations(idle.caller(), { limit: 10 });
    expect(operations[0]).toMatchObject({ kind: 'pause', cause: 'idle', requestId: null, state: 'succeeded' });
    expect(operations[1]).toMatchObject({ kind: 'create', cause: null });
  });

  it('is not paused while a stream or a watch is open, and is once it has ended', async () => {
    const idle = new Idle();
    const id = await idle.make();
    const stream = await idle.open(id, 'forever');
    await idle.rounds(10);
    expect(await idle.status(id)).toBe('running');
    const watch = idle.files.watchFiles(idle.gated(), { id, path: '/', recursive: false })[Symbol.asyncIterator]();
    await watch.next();
    await stream.return?.();
    await idle.rounds(10);
    expect(await idle.status(id)).toBe('running');
    await watch.return?.();
    await idle.rounds(3);
    expect(await idle.status(id)).toBe('paused');
  });

  it('is not paused while a connection to a port is open, however silent, and is once it is closed', async () => {
    const idle = new Idle();
    const id = await idle.make();
    const server = createServer((socket) => socket.on('error', () => undefined));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const connections = [await idle.ports.connectPort(idle.gated(), { id, port })];
    connections.push(await idle.ports.connectPort(idle.gated(), { id, port }));
    await idle.rounds(10);
    expect(await idle.status(id)).toBe('running');
    for (const connection of connections) {
      expect(await idle.status(id)).toBe('running');
      connection.reset();
      await connection.closed;
      await idle.rounds(2);
    }
    await idle.rounds(2);
    expect(await idle.status(id)).toBe('paused');
    server.close();
  });

  it('is not paused while bytes pass to the outside, and is when such a connection is silent', async () => {
    const idle = new Idle();
    const id = await idle.make();
    for (let i = 0; i < 6; i++) {
      idle.node.traffic(id, 1);
      await idle.rounds(1);
    }
    expect(await idle.status(id)).toBe('running');
    await idle.rounds(3);
    expect(await idle.status(id)).toBe('paused');
  });

  it('is not paused while it works, or while what it takes is not known', async () => {
    const idle = new Idle();
    const id = await idle.make();
    for (let i = 0; i < 6; i++) {
      idle.node.work(id, 2_500);
      await idle.rounds(1);
    }
    expect(await idle.status(id)).toBe('running');
    for (let i = 0; i < 6; i++) {
      idle.node.faults.failNext('usage', new AppError('internal', 'as asked'));
      await idle.rounds(1);
    }
    expect(await idle.status(id)).toBe('running');
    await idle.rounds(5);
    expect(await idle.status(id)).toBe('paused');
  });

  it('is not paused while a process that keeps it awake is alive', async () => {
    const idle = new Idle();
    const id = await idle.make();
    const keeper = await idle.start(id, 'forever', true);
    await idle.rounds(10);
    expect(await idle.status(id)).toBe('running');
    await idle.guests.signalProcess(idle.gated(), {
      id,
      processId: keeper.processId,
      signal: 'SIGKILL',
      target: 'tree',
    });
    await idle.start(id, 'forever');
    await idle.rounds(4);
    expect(await idle.status(id)).toBe('paused');
    expect((await idle.records.findSandbox(id))?.keepers).toEqual([]);
  });

  it('is not paused, also after the platform was restarted, while a process that keeps it awake is alive', async () => {
    const idle = new Idle();
    const id = await idle.make();
    const { processId } = await idle.start(id, 'forever', true);
    const next = new Idle({ node: idle.node, records: idle.records });
    await next.rounds(10);
    expect(await next.status(id)).toBe('running');
    await idle.node.signalProcess(id, processId, 9);
    await next.rounds(5);
    expect(await next.status(id)).toBe('paused');
  });

  it('is never paused when its policy says so, from the next round on', async () => {
    const idle = new Idle();
    const id = await idle.make({ idle: { pauseAfterMs: null } });
    await idle.rounds(100);
    expect(await idle.status(id)).toBe('running');
    const [child] = await idle.fork(id);
    if (child === undefined || 'error' in child) throw new Error('the fork failed');
    expect(child.sandbox.idle).toEqual({ pauseAfterMs: null });
    await idle.control.updateSandbox(idle.caller(), { id, ...QUICK });
    expect((await idle.get(id)).idle).toEqual(QUICK.idle);
    await idle.rounds(5);
    expect(await idle.status(id)).toBe('paused');
    expect(await idle.status(child.sandbox.id as SandboxId)).toBe('running');
  });

  it('is paused after ten minutes when nothing else was asked for', async () => {
    const idle = new Idle();
    const id = await idle.make({});
    await idle.rounds(59);
    expect(await idle.status(id)).toBe('running');
    await idle.rounds(3);
    expect(await idle.status(id)).toBe('paused');
  });

  it('wakes for a use that comes during the pause, which does not fail', async () => {
    const idle = new Idle();
    const id = await idle.make();
    await idle.rounds(3);
    const held = idle.node.faults.holdNext('pause');
    await idle.begin();
    await held.reached;
    const running = idle.open(id, 'read');
    held.letGo();
    await running;
    await idle.ended();
    expect(await idle.status(id)).toBe('running');
    const kinds = (await idle.control.listOperations(idle.caller(), { limit: 10 })).operations.map(({ kind }) => kind);
    expect(kinds).toEqual(['resume', 'pause', 'create']);
  });

  it('is left alone after a pause that failed until it has been idle as long again', async () => {
    const idle = new Idle();
    const id = await idle.make();
    await idle.rounds(3);
    idle.node.faults.failNext('pause', new AppError('snapshot_failed', 'as asked'));
    await idle.rounds(1);
    expect(await idle.status(id)).toBe('running');
    await idle.rounds(2);
    expect(await idle.status(id)).toBe('running');
    await idle.rounds(4);
    expect(await idle.status(id)).toBe('paused');
  });

  it('that cannot be paused says so after the third attempt, with the way out, and is tried again ever more rarely', async () => {
    const idle = new Idle();
    const id = await idle.make();
    const before = await idle.snapshot(id);
    const cause = new AppError('agent_lost', 'The agent did not answer in 25000 ms.');
    const silence = () => new AppError('snapshot_failed', `It failed: ${cause.message}`, { cause });
    for (let i = 0; i < 200; i++) idle.node.faults.failNext('pause', silence());
    const attempts = () => idle.node.faults.steps.filter((step) => step === 'pause').length;
    while (attempts() < 2) await idle.rounds(1);
    expect((await idle.get(id)).pauseFailure).toBeNull();
    while (attempts() < 3) await idle.rounds(1);
    expect((await idle.get(id)).pauseFailure).toMatchObject({
      code: 'snapshot_failed',
      detail: 'It failed: The agent did not answer in 25000 ms.',
      nextStep: expect.stringContaining('keepPresent: false'),
      attempts: 3,
    });
    const events = await idle.records.events.list({
      after: null,
      projectId: DEFAULT_PROJECT,
      organisationId: null,
      limit: 100,
    });
    expect(events.filter(({ kind }) => kind === 'sandbox.not_paused')).toMatchObject([
      { sandboxId: id, errorCode: 'snapshot_failed' },
    ]);
    await idle.rounds(360);
    const inAnHour = attempts();
    expect(inAnHour).toBeGreaterThan(5);
    expect(inAnHour).toBeLessThan(30);
    expect((await idle.get(id)).pauseFailure).toMatchObject({ attempts: inAnHour });
    expect(await idle.status(id)).toBe('running');
    // By the way out that it names.
    await idle.sandboxes.rewindSandbox(idle.gated(), { id, to: before.id, keepPresent: false });
    expect((await idle.get(id)).pauseFailure).toBeNull();
  });

  it('says so no longer once it could be paused', async () => {
    const idle = new Idle();
    const id = await idle.make();
    for (let i = 0; i < 3; i++) idle.node.faults.failNext('pause', new AppError('agent_lost', 'silent'));
    while ((await idle.get(id)).pauseFailure === null) await idle.rounds(1);
    while ((await idle.status(id)) !== 'paused') await idle.rounds(1);
    expect((await idle.get(id)).pauseFailure).toBeNull();
    await idle.resume(id);
    expect((await idle.get(id)).pauseFailure).toBeNull();
  });

  it('is not told of when something else came first each time', async () => {
    const idle = new Idle();
    const id = await idle.make();
    for (let i = 0; i < 5; i++) idle.node.faults.failNext('pause', new AppError('node_unavailable', 'away'));
    await idle.rounds(60);
    expect(await idle.status(id)).toBe('paused');
    const events = await idle.records.events.list({
      after: null,
      projectId: DEFAULT_PROJECT,
      organisationId: null,
      limit: 100,
    });
    expect(events.map(({ kind }) => kind)).not.toContain('sandbox.not_paused');
  });
});
