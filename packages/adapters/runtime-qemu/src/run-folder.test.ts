import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { identify, isAlive, type ProcessIdentity } from './process-identity.ts';
import { openRunDir, RunFolder, recordsIn, spareFolderName } from './run-folder.ts';

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

/** As the launcher does it. */
async function record(folder: RunFolder, identity: ProcessIdentity): Promise<void> {
  await writeFile(join(folder.path, 'vmm.json'), JSON.stringify(identity));
}

const clear = (folder: RunFolder): Promise<void> => folder.remove();

it('lists the VMs that were recorded, and removes folders in which none was ever started', async () => {
  const runDir = await temporaryRunDir();
  const recorded = await RunFolder.create(join(runDir, LIFE));
  const identity = await startSleeper();
  await record(recorded, identity);
  await RunFolder.create(join(runDir, 'lif_2123456789abcdef'));
  expect(await recordsIn(runDir, clear)).toEqual([{ lifeId: LIFE, ...identity, runDir: recorded.path }]);
  expect(await readdir(runDir)).toHaveLength(1);
});

it('ends the spares of a dead owner, and leaves those of a living one', async () => {
  const runDir = await temporaryRunDir();
  const orphan = await RunFolder.create(join(runDir, 'spare-1-1-0'));
  const left = await startSleeper();
  await record(orphan, left);
  const own = await RunFolder.create(join(runDir, await spareFolderName(0)));
  await openRunDir(runDir, clear);
  expect(await isAlive(left)).toBe(false);
  expect(await readdir(runDir)).toEqual([own.path.slice(runDir.length + 1)]);
});

it('gives a life one folder: a second one is refused, created or renamed', async () => {
  const runDir = await temporaryRunDir();
  await RunFolder.create(join(runDir, LIFE));
  await expect(RunFolder.create(join(runDir, LIFE))).rejects.toThrow('EEXIST');
  const spare = await RunFolder.create(join(runDir, 'spare-1-1-1'));
  await expect(spare.renameTo(join(runDir, LIFE))).rejects.toThrow('ENOTEMPTY');
});

it('refuses a path in which sockets would not fit', async () => {
  await expect(openRunDir(join(tmpdir(), 'x'.repeat(90)), clear)).rejects.toThrow('too long');
});

it('survives things in the run folder that are not its own', async () => {
  const runDir = await temporaryRunDir();
  await mkdir(join(runDir, 'lost+found'));
  await writeFile(join(runDir, 'spare-x'), '');
  await openRunDir(runDir, clear);
  expect(await recordsIn(runDir, clear)).toEqual([]);
});
