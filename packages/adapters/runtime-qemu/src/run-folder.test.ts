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

async function startSleeper(cwd: string): Promise<ProcessIdentity> {
  const child = spawn('/bin/sleep', ['60'], { cwd, stdio: 'ignore' });
  onTestFinished(() => void child.kill('SIGKILL'));
  const identity = await identify(child.pid ?? 0);
  if (!identity) throw new Error('the child is not there');
  return identity;
}

it('lists the VMs that were recorded, also one whose starter died before it wrote the record', async () => {
  const runDir = await temporaryRunDir();
  const recorded = await RunFolder.create(join(runDir, LIFE), undefined);
  const first = await startSleeper(recorded.work);
  await recorded.writeRecord(first);
  const unrecorded = await RunFolder.create(join(runDir, 'lif_1123456789abcdef'), undefined);
  const second = await startSleeper(unrecorded.work);
  await RunFolder.create(join(runDir, 'lif_2123456789abcdef'), undefined);
  expect(await recordsIn(runDir)).toEqual([
    { lifeId: LIFE, ...first, runDir: recorded.path },
    { lifeId: 'lif_1123456789abcdef', ...second, runDir: unrecorded.path },
  ]);
  expect(await readdir(runDir)).toHaveLength(2);
});

it('ends the spares of a dead owner, and leaves those of a living one', async () => {
  const runDir = await temporaryRunDir();
  const orphan = await RunFolder.create(join(runDir, 'spare-1-1-0'), undefined);
  const left = await startSleeper(orphan.work);
  await orphan.writeRecord(left);
  const own = await RunFolder.create(join(runDir, await spareFolderName(0)), undefined);
  await openRunDir(runDir);
  expect(await isAlive(left)).toBe(false);
  expect(await readdir(runDir)).toEqual([own.path.slice(runDir.length + 1)]);
});

it('gives a life one folder: a second one is refused, created or renamed', async () => {
  const runDir = await temporaryRunDir();
  await RunFolder.create(join(runDir, LIFE), undefined);
  await expect(RunFolder.create(join(runDir, LIFE), undefined)).rejects.toThrow('EEXIST');
  const spare = await RunFolder.create(join(runDir, 'spare-1-1-1'), undefined);
  await expect(spare.renameTo(join(runDir, LIFE))).rejects.toThrow('ENOTEMPTY');
});

it('refuses a path in which sockets would not fit', async () => {
  await expect(openRunDir(join(tmpdir(), 'x'.repeat(90)))).rejects.toThrow('too long');
});

it('survives things in the run folder that are not its own', async () => {
  const runDir = await temporaryRunDir();
  await mkdir(join(runDir, 'lost+found'));
  await writeFile(join(runDir, 'spare-x'), '');
  await openRunDir(runDir);
  expect(await recordsIn(runDir)).toEqual([]);
});
