/** The control API, as E2B's own SDKs, unmodified, use it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SDKS, World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await World.start();
});
afterAll(() => world[Symbol.asyncDispose]());

describe.each(SDKS)('the SDK %s', (_version, { Sandbox, SandboxNotFoundError, AuthenticationError, ...sdk }) => {
  it('makes a sandbox, finds it, and kills it once', async () => {
    const sandbox = await Sandbox.create({
      ...world.options,
      metadata: { a: 'b c&d' },
      envs: { X: '1' },
      timeoutMs: 60_000,
    });
    const from = Date.now();
    expect(await sandbox.isRunning()).toBe(true);
    const info = await sandbox.getInfo();
    expect(info).toMatchObject({
      sandboxId: sandbox.sandboxId,
      templateId: 'base',
      metadata: { a: 'b c&d' },
      state: 'running',
    });
    expect(Math.abs(info.endAt.getTime() - from - 60_000)).toBeLessThan(5_000);
    expect(await sandbox.kill()).toBe(true);
    expect(await Sandbox.kill(sandbox.sandboxId, world.options)).toBe(false);
    expect(await sandbox.isRunning()).toBe(false);
    await expect(sandbox.getInfo()).rejects.toThrow(SandboxNotFoundError);
  });

  it('ends a sandbox sooner or later, and a connect only later', async () => {
    const sandbox = await Sandbox.create({ ...world.options, timeoutMs: 600_000 });
    const left = async () => (await sandbox.getInfo()).endAt.getTime() - Date.now();
    await sandbox.setTimeout(30_000);
    expect(await left()).toBeLessThanOrEqual(30_000);
    await Sandbox.connect(sandbox.sandboxId, { ...world.options, timeoutMs: 120_000 });
    expect(await left()).toBeGreaterThan(110_000);
    await Sandbox.connect(sandbox.sandboxId, { ...world.options, timeoutMs: 10_000 });
    expect(await left()).toBeGreaterThan(110_000);
    await sandbox.kill();
    await expect(sandbox.setTimeout(1_000)).rejects.toThrow(SandboxNotFoundError);
  });

  it('pauses a sandbox once, and a connect goes on with it', async () => {
    const sandbox = await Sandbox.create({ ...world.options, timeoutMs: 60_000 });
    const { startedAt } = await sandbox.getInfo();
    const pause = () => sandbox.pause();
    expect(await pause()).toBe(true);
    expect(await pause()).toBe(false);
    const paused = await Sandbox.getInfo(sandbox.sandboxId, world.options);
    expect(paused).toMatchObject({ state: 'paused', startedAt });
    expect(paused.endAt.getTime()).toBeLessThanOrEqual(Date.now());
    expect(await sandbox.isRunning()).toBe(false);
    const again = await Sandbox.connect(sandbox.sandboxId, { ...world.options, timeoutMs: 20_000 });
    expect(again.sandboxId).toBe(sandbox.sandboxId);
    const info = await again.getInfo();
    expect(info.state).toBe('running');
    expect(info.startedAt.getTime()).toBeGreaterThan(startedAt.getTime());
    expect(info.endAt.getTime() - Date.now()).toBeLessThanOrEqual(20_000);
    expect(await again.isRunning()).toBe(true);
    await again.kill();
  });

  it('keeps files alone in a pause where that is said, and only a connect goes on then', async () => {
    const lifecycle = { onTimeout: 'pause' as const, autoResume: true };
    const sandbox = await Sandbox.create({ ...world.options, timeoutMs: 60_000, lifecycle });
    await sandbox.files.write('kept', 'here');
    expect(await sandbox.pause({ keepMemory: false })).toBe(true);
    await expect(sandbox.commands.run('true')).rejects.toThrow(SandboxNotFoundError);
    expect((await sandbox.getInfo()).state).toBe('paused');
    const again = await Sandbox.connect(sandbox.sandboxId, { ...world.options, timeoutMs: 60_000 });
    expect(await again.files.read('kept')).toBe('here');
    await again.kill();
  });

  it('lists by labels and state, in pages, newest first', async () => {
    const label = `list ${Math.random()}&=%`;
    const make = () => Sandbox.create({ ...world.options, timeoutMs: 60_000, metadata: { label } });
    const made = [await make(), await make(), await make()];
    const [first, second, third] = made.map(({ sandboxId }) => sandboxId);
    await made[0]?.pause();
    const all = async (query: object, limit = 2) => {
      const ids: string[] = [];
      const pages = Sandbox.list({ ...world.options, limit, query: { metadata: { label }, ...query } });
      while (pages.hasNext) ids.push(...(await pages.nextItems()).map(({ sandboxId }) => sandboxId));
      return ids;
    };
    expect(await all({})).toEqual([third, second, first]);
    expect(await all({}, 1)).toEqual([third, second, first]);
    expect(await all({ state: ['running'] })).toEqual([third, second]);
    expect(await all({ state: ['paused'] })).toEqual([first]);
    expect(await all({ metadata: { label: 'another' } })).toEqual([]);
    for (const sandbox of made) await sandbox.kill();
  });

  it('takes snapshots that outlive their sandbox, starts from them, and deletes them', async () => {
    const { SandboxError } = sdk;
    const sandbox = await Sandbox.create({ ...world.options, timeoutMs: 60_000 });
    const name = `snap-${_version.replaceAll('.', '-')}`;
    const named = await sandbox.createSnapshot({ name });
    expect(named.names?.[0]).toContain(name);
    const unnamed = await sandbox.createSnapshot();
    await sandbox.kill();
    const pages = Sandbox.listSnapshots({ ...world.options, sandboxId: sandbox.sandboxId });
    const listed = (await pages.nextItems()).map(({ snapshotId }) => snapshotId);
    expect(listed).toEqual([unnamed.snapshotId, named.snapshotId]);
    for (const template of [name, named.snapshotId, unnamed.snapshotId]) {
      const copy = await Sandbox.create(template, { ...world.options, timeoutMs: 60_000 });
      expect((await copy.getInfo()).templateId).toBe('base');
      await copy.kill();
    }
    expect(await Sandbox.deleteSnapshot(named.snapshotId, world.options)).toBe(true);
    expect(await Sandbox.deleteSnapshot(named.snapshotId, world.options)).toBe(false);
    expect(await Sandbox.deleteSnapshot(unnamed.snapshotId, world.options)).toBe(true);
    await expect(Sandbox.create(name, world.options)).rejects.toThrow(SandboxError);
  });

  it('tells a wrong key, and a template that is not there', async () => {
    await expect(Sandbox.create({ ...world.options, apiKey: `space_${'x'.repeat(43)}` })).rejects.toThrow(
      AuthenticationError,
    );
    await expect(Sandbox.create('no-such', world.options)).rejects.toThrow(/template 'no-such' not found/);
  });

  it('shows what a sandbox takes', async () => {
    const sandbox = await Sandbox.create({ ...world.options, timeoutMs: 60_000 });
    expect(Array.isArray(await sandbox.getMetrics())).toBe(true);
    await sandbox.kill();
  });

  it('changes what a sandbox may reach, and knows its older names for calls', async () => {
    const sandbox = await Sandbox.create({ ...world.options, timeoutMs: 60_000 });
    await sandbox.updateNetwork({ denyOut: ['8.8.0.0/16'] });
    expect((await sandbox.getInfo()).network).toMatchObject({ denyOut: ['8.8.0.0/16'] });
    await sandbox.updateNetwork({ denyOut: ['0.0.0.0/0'], allowOut: ['api.example'] });
    const { network } = await Sandbox.getFullInfo(sandbox.sandboxId, world.options);
    expect(network).toMatchObject({ denyOut: ['0.0.0.0/0'], allowOut: ['api.example'] });
    expect(await sandbox.betaPause()).toBe(true);
    expect((await sandbox.getInfo()).state).toBe('paused');
    await sandbox.kill();
  });

  it('knows the templates that are there', async () => {
    const { Template } = sdk;
    expect(await Template.exists('base', world.options)).toBe(true);
    expect(await Template.aliasExists('none', world.options)).toBe(false);
  });
});

describe.each(SDKS)('forks by the SDK %s', (_version, { Sandbox }) => {
  it('are sandboxes of their own, with ends of their own', async () => {
    const source = await Sandbox.create({ ...world.options, timeoutMs: 600_000 });
    const forks = await source.fork({ count: 2, timeoutMs: 60_000 });
    const copies = forks.map((one) => {
      if (one instanceof Error) throw one;
      return one;
    });
    expect(new Set([source, ...copies].map(({ sandboxId }) => sandboxId)).size).toBe(3);
    for (const copy of copies) {
      expect((await copy.getInfo()).endAt.getTime() - Date.now()).toBeLessThanOrEqual(60_000);
      expect(await copy.isRunning()).toBe(true);
      await copy.kill();
    }
    expect((await source.getInfo()).endAt.getTime() - Date.now()).toBeGreaterThan(500_000);
    await source.kill();
  });
});
