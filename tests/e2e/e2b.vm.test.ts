/** E2B's own SDK, unmodified, against real microVMs, in the way that users point it at a server: by URLs and a key. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createLogger, listen } from '@space/http';
import { apiServer, openEncryption } from '@space/server';
import { Sandbox, SandboxNotFoundError } from 'e2b';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { e2bCases } from './e2b-cases.ts';
import { e2bInterpreterCases } from './e2b-interpreter-cases.ts';
import { e2bTemplateCases } from './e2b-template-cases.ts';
import { makeWorld, type World } from './world.ts';

let world: World;
let options: { apiUrl: string; sandboxUrl: string; apiKey: string };
beforeAll(async () => {
  world = await makeWorld();
  const { baseUrl, apiKey } = world.connection;
  options = { apiUrl: baseUrl, sandboxUrl: baseUrl, apiKey };
});
afterAll(() => world[Symbol.asyncDispose]());

const left = (endAt: Date) => endAt.getTime() - Date.now();

it('the example of the guide runs, and prints what that says', async () => {
  const e2b = { E2B_API_URL: options.apiUrl, E2B_SANDBOX_URL: options.sandboxUrl, E2B_API_KEY: options.apiKey };
  const example = join(import.meta.dirname, '../../examples/e2b.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [example], { env: { ...process.env, ...e2b } });
  expect(stdout).toBe('Find the bug.\nFind the bug.\ntrue\n');
});

describe('the life of a sandbox', () => {
  it('is made, seen, put off, paused, gone on with and ended by the SDK', async () => {
    const sandbox = await Sandbox.create({ ...options, metadata: { of: 'a test' }, timeoutMs: 300_000 });
    expect(await sandbox.isRunning()).toBe(true);
    const pages = Sandbox.list({ ...options, query: { metadata: { of: 'a test' } } });
    expect((await pages.nextItems()).map(({ sandboxId }) => sandboxId)).toEqual([sandbox.sandboxId]);
    await sandbox.setTimeout(900_000);
    const info = await sandbox.getInfo();
    expect(info).toMatchObject({ templateId: 'base', state: 'running', metadata: { of: 'a test' } });
    expect(left(info.endAt)).toBeGreaterThan(600_000);

    expect(await sandbox.pause()).toBe(true);
    expect(await sandbox.pause()).toBe(false);
    expect((await sandbox.getInfo()).state).toBe('paused');
    expect(await sandbox.isRunning()).toBe(false);
    const again = await Sandbox.connect(sandbox.sandboxId, { ...options, timeoutMs: 120_000 });
    expect(left((await again.getInfo()).endAt)).toBeLessThanOrEqual(120_000);
    expect(await again.isRunning()).toBe(true);

    expect(await again.kill()).toBe(true);
    expect(await again.isRunning()).toBe(false);
    await expect(again.getInfo()).rejects.toThrow(SandboxNotFoundError);
  });

  it('keeps its files alone in a pause where that is said, and boots when it goes on', async () => {
    const sandbox = await Sandbox.create({ ...options, timeoutMs: 300_000 });
    const bootId = async (of: Sandbox) => (await of.commands.run('cat /proc/sys/kernel/random/boot_id')).stdout;
    const { pid } = await sandbox.commands.run('sleep 1000', { background: true });
    // Not written out by whoever wrote it.
    await sandbox.commands.run('echo kept > file; mkdir -p made/deep; echo too > made/deep/file');
    const before = await bootId(sandbox);
    expect(await sandbox.pause({ keepMemory: false })).toBe(true);
    const again = await Sandbox.connect(sandbox.sandboxId, options);
    expect(await bootId(again)).not.toBe(before);
    expect((await again.commands.run('cat file made/deep/file')).stdout).toBe('kept\ntoo\n');
    expect((await again.commands.list()).map((one) => one.pid)).not.toContain(pid);
    expect(await again.kill()).toBe(true);
  });

  it('boots from what has kept its memory where a connect says so, with all that was written', async () => {
    const sandbox = await Sandbox.create({ ...options, timeoutMs: 300_000 });
    const bootId = async (of: Sandbox) => (await of.commands.run('cat /proc/sys/kernel/random/boot_id')).stdout;
    // Not written out by whoever wrote it.
    await sandbox.commands.run('echo kept > file');
    const before = await bootId(sandbox);
    expect(await sandbox.pause()).toBe(true);
    // The SDK has no word for it; its API has.
    const connected = await fetch(`${options.apiUrl}/v2/sandboxes/${sandbox.sandboxId}/connect`, {
      method: 'POST',
      headers: { 'x-api-key': options.apiKey, 'content-type': 'application/json' },
      body: JSON.stringify({ memory: false }),
    });
    expect(connected.status).toBe(201);
    expect(await bootId(sandbox)).not.toBe(before);
    expect((await sandbox.commands.run('cat file')).stdout).toBe('kept\n');
    expect(await sandbox.kill()).toBe(true);
  });

  it('is paused at its time, and woken by a command where it says so, its memory with it', async () => {
    const make = (autoResume: boolean) =>
      Sandbox.create({ ...options, timeoutMs: 60_000, lifecycle: { onTimeout: 'pause', autoResume } });
    const [waking, sleeping] = [await make(true), await make(false)];
    const { pid } = await waking.commands.run('sleep 1000', { background: true });
    const isPaused = async (sandbox: Sandbox) => (await sandbox.getInfo()).state === 'paused';
    for (const sandbox of [waking, sleeping]) await sandbox.setTimeout(0);
    for (const sandbox of [waking, sleeping]) {
      await expect.poll(() => isPaused(sandbox), { timeout: 30_000, interval: 100 }).toBe(true);
    }
    await expect(sleeping.commands.run('true')).rejects.toThrow(SandboxNotFoundError);
    expect(await isPaused(sleeping)).toBe(true);
    expect((await waking.commands.list()).map((one) => one.pid)).toContain(pid);
    const info = await waking.getInfo();
    expect(info.state).toBe('running');
    expect(Math.abs(left(info.endAt) - 300_000)).toBeLessThan(30_000);
    for (const sandbox of [waking, sleeping]) await sandbox.kill();
  });

  it('ends by itself at its time', async () => {
    const sandbox = await Sandbox.create({ ...options, timeoutMs: 2_000 });
    await expect.poll(() => sandbox.isRunning(), { timeout: 20_000, interval: 250 }).toBe(false);
    await expect(sandbox.getInfo()).rejects.toThrow(SandboxNotFoundError);
  });
});

it('a domain and an authority to believe are enough: commands, signed URLs and ports are found by their names', async () => {
  const { control } = world.platform;
  const encryption = await openEncryption({
    config: { dataDir: world.config.dataDir, tls: { kind: 'made', domain: 'sbx.test' } },
    onChange: () => undefined,
    onWarning: (message) => expect.fail(message),
  });
  if (encryption?.authorityPath == null) throw new Error('there is TLS');
  const config = { hosts: [], domain: { name: 'sbx.test' }, tls: encryption.current() };
  const app = apiServer(control, { config, logger: createLogger({ level: 'error' }) });
  try {
    const { port } = new URL(await listen(app, { host: '127.0.0.1', port: 0 }));
    const env = {
      ...process.env,
      E2B_DOMAIN: `sbx.test:${port}`,
      E2B_API_KEY: options.apiKey,
      NODE_EXTRA_CA_CERTS: encryption.authorityPath,
    };
    const shim = join(import.meta.dirname, '../../packages/e2b/test/resolve-names.cjs');
    const client = join(import.meta.dirname, 'e2b-domain-client.ts');
    const { stdout } = await promisify(execFile)(process.execPath, ['--require', shim, client], { env });
    expect(stdout).toBe('by its name\nby its name\n');
  } finally {
    encryption.close();
    await app.close();
  }
});

describe('what is done in it', () => e2bCases(() => options));

describe('templates', () => e2bTemplateCases(() => options));

describe.runIf(process.env['SPACE_FULL'] === '1')('the code interpreter', e2bInterpreterCases);
