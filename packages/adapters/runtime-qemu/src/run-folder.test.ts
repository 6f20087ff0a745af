import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { identify, type ProcessIdentity } from './process-identity.ts';
import { openRunDir, recordsIn, spareFolderName } from './run-folder.ts';

const LIFE = 'lif_0123456789abcdef';

async function temporaryRunDir(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'run-'));
  onTestFinished(() => rm(path, { recursive: true }));
  return path;
}

async function startSleeper(): Promise<ProcessIdentity> {
  const child = spawn('/bin/sleep', ['60'], { stdio: 'ignore' });
  onTestFinished(() => void child.kill('SIGKILL'));
  const identity = await identify(child.pid ?? 0);
  if (!identity) throw new Error('the child is not there');
  return identity;
}

/** As the helper makes it, with the record that its launcher writes. */
async function makeFolder(path: string, identity?: ProcessIdentity): Promise<string> {
  await mkdir(path);
  if (identity) await writeFile(join(path, 'vmm.json'), JSON.stringify(identity));
  return path;
}

it('lists the VMs that were recorded, and discards folders in which none was ever started', async () => {
  const runDir = await temporaryRunDir();
  const identity = await startSleeper();
  const recorded = await makeFolder(join(runDir, LIFE), identity);
  await makeFolder(join(runDir, 'lif_2123456789abcdef'));
  const discarded: string[] = [];
  const records = await recordsIn(runDir, async (name) => void discarded.push(name));
  expect(records).toEqual([{ lifeId: LIFE, ...identity, runDir: recorded }]);
  expect(discarded).toEqual(['lif_2123456789abcdef']);
});

it('discards the spares of a dead owner, and leaves those of a living one', async () => {
  const runDir = await temporaryRunDir();
  await makeFolder(join(runDir, 'spare-1-1-0'), await startSleeper());
  await makeFolder(join(runDir, await spareFolderName(0)));
  const discarded: string[] = [];
  await openRunDir(runDir, async (name) => void discarded.push(name));
  expect(discarded).toEqual(['spare-1-1-0']);
});

it('refuses a path in which sockets would not fit', async () => {
  await expect(openRunDir(join(tmpdir(), 'x'.repeat(90)), expect.unreachable)).rejects.toThrow('too long');
});

it('survives things in the run folder that are not its own', async () => {
  const runDir = await temporaryRunDir();
  await mkdir(join(runDir, 'lost+found'));
  await writeFile(join(runDir, 'spare-x'), '');
  await openRunDir(runDir, expect.unreachable);
  expect(await recordsIn(runDir, expect.unreachable)).toEqual([]);
});
