/** What goes wrong below, as the SDK tells it. */
import { AppError, type SandboxId } from '@space/core';
import { type ConnectionOpts, Sandbox, ServiceBusyError } from 'e2b';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fromE2bId } from '../src/index.ts';
import { startFragile } from './world.ts';

let world: Awaited<ReturnType<typeof startFragile>>;
let options: ConnectionOpts;
beforeEach(async () => {
  world = await startFragile();
  await world.control.start();
  options = { apiUrl: world.url, sandboxUrl: world.url, apiKey: world.operatorKey };
});
afterEach(() => world[Symbol.asyncDispose]());

const idOf = ({ sandboxId }: Sandbox): SandboxId => {
  const id = fromE2bId(sandboxId);
  if (id === undefined) throw new Error('it has an id of ours');
  return id;
};

describe('a fork', () => {
  it('of which some copies fail gives the others, and says why of each that failed', async () => {
    const source = await Sandbox.create(options);
    world.node.faults.failNext('start', new AppError('insufficient_space', 'the vault is full'));
    const results = await source.fork({ count: 3 });
    const failed = results.filter((one) => one instanceof Error);
    expect(results).toHaveLength(3);
    expect(failed).toHaveLength(1);
    expect(failed[0]?.message).toContain('the vault is full');
    for (const one of results) if (!(one instanceof Error)) expect(await one.isRunning()).toBe(true);
    expect(await source.isRunning()).toBe(true);
  });
});

describe('a create', () => {
  it('that finds no room says so, and leaves nothing behind', async () => {
    world.node.faults.failNext('start', new AppError('insufficient_memory', 'no room'));
    const failing = Sandbox.create(options);
    await expect(failing).rejects.toThrow(ServiceBusyError);
    await expect(failing).rejects.toThrow(/no room/);
    expect(await Sandbox.list(options).nextItems()).toEqual([]);
  });
});

describe('a pause', () => {
  it('that fails leaves the sandbox running, with the end that it had', async () => {
    const sandbox = await Sandbox.create({ ...options, timeoutMs: 60_000 });
    const { endAt } = await sandbox.getInfo();
    world.node.faults.failNext('pause', new AppError('agent_lost', 'silent'));
    await expect(sandbox.pause()).rejects.toThrow(/silent/);
    expect(await sandbox.getInfo()).toMatchObject({ state: 'running', endAt });
    expect(await sandbox.isRunning()).toBe(true);
    expect(await sandbox.pause()).toBe(true);
  });
});

describe('a sandbox whose microVM has ended unasked', () => {
  it('does not run, and goes on by a connect', async () => {
    const sandbox = await Sandbox.create({
      ...options,
      timeoutMs: 60_000,
      lifecycle: { onTimeout: 'pause', autoResume: true },
    });
    await sandbox.files.write('kept', 'on disk');
    world.node.crash(idOf(sandbox));
    await expect.poll(() => sandbox.isRunning()).toBe(false);
    expect((await sandbox.getInfo()).state).toBe('paused');
    // What was in its memory is lost: no mere use accepts that.
    await expect(sandbox.files.read('kept')).rejects.toThrow();
    expect(await sandbox.isRunning()).toBe(false);
    const again = await Sandbox.connect(sandbox.sandboxId, options);
    expect(await again.files.read('kept')).toBe('on disk');
    expect((await again.getInfo()).endAt.getTime()).toBeGreaterThan(Date.now());
  });
});
