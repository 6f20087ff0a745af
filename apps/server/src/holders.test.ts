import { spawn } from 'node:child_process';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { fileHolders, portHolder } from './holders.ts';

it.each(['127.0.0.1', '::1'])('a listener on %s is told by its process, and a free port has none', async (host) => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  expect(await portHolder(port)).toMatch(new RegExp(`^process ${process.pid} \\(.+\\)$`));
  await new Promise((resolve) => server.close(resolve));
  expect(await portHolder(port)).toBeNull();
});

it('a file is told by the processes that have it open, and what keeps one that is stopped', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'space-holders-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, 'lock');
  await using file = await open(path, 'a');
  expect(await fileHolders(path)).toEqual([]);
  const child = spawn('sleep', ['60'], { stdio: ['ignore', 'ignore', 'ignore', file.fd] });
  onTestFinished(() => void child.kill('SIGKILL'));
  await expect.poll(() => fileHolders(path)).toEqual([`process ${child.pid} (sleep 60)`]);
  child.kill('SIGSTOP');
  await expect.poll(() => fileHolders(path)).toEqual([`process ${child.pid} (sleep 60), which is stopped`]);
});
