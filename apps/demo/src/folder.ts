/**
 * The demo's own data folder: made for one run, and removed with all that runs or is mounted in it. The folder's name
 * holds the pid of its run, so that a later run can remove what a killed one left.
 */
import { mkdtemp, readdir, readFile, readlink, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type Config, configFrom, type Platform, startPlatform } from '@space/server';

export interface DemoFolder {
  readonly path: string;
  platform: Platform | null;
}

const PLACE = '/var/tmp';
const PREFIX = 'space-demo-';
const VAULT_GIB = '16';

export async function makeDemoFolder(): Promise<DemoFolder> {
  return { path: await mkdtemp(join(PLACE, `${PREFIX}${process.pid}-`)), platform: null };
}

export function demoConfig({ path }: DemoFolder): Config {
  const argv = ['--data', path, '--listen', '127.0.0.1:0', '--vault-size', VAULT_GIB, '--log-level', 'error'];
  const config = configFrom(argv, { SPACE_MEMORY_MIB: process.env['SPACE_MEMORY_MIB'] });
  if (config === null) throw new Error('the demo has no configuration');
  return config;
}

/** Ends what runs in the folder, removes it, and returns what is still there of it: processes, mounts, files. */
export async function removeDemoFolder(folder: DemoFolder): Promise<string[]> {
  await folder.platform?.close();
  await rm(folder.path, { recursive: true, force: true });
  const { runDir } = demoConfig(folder);
  await rm(runDir, { recursive: true, force: true });
  return [
    ...(await processesOf(folder.path, runDir)),
    ...(await mountsIn(folder.path)),
    ...(await remains(folder.path)),
  ];
}

/** A demo that was killed left VMs and a mount: the platform takes them up once more, and closes them properly. */
export async function removeDeadDemos(note: (text: string) => void): Promise<void> {
  for (const name of await readdir(PLACE)) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1];
    if (pid === undefined || (await isRunning(Number(pid)))) continue;
    note(`removing what an interrupted demo left in ${join(PLACE, name)}`);
    const folder: DemoFolder = { path: join(PLACE, name), platform: null };
    folder.platform = await startPlatform(demoConfig(folder));
    await removeDemoFolder(folder);
  }
}

/** Processes whose command line, working directory or memory names the folders. */
export async function processesOf(...folders: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    if (Number(pid) === process.pid) continue;
    const texts = await Promise.all(
      ['cmdline', 'maps'].map((file) => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '')),
    );
    texts.push(await readlink(`/proc/${pid}/cwd`).catch(() => ''));
    if (folders.some((folder) => texts.some((text) => text.includes(folder)))) found.push(`process ${pid}`);
  }
  return found;
}

async function mountsIn(folder: string): Promise<string[]> {
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n');
  return mounts.filter((line) => line.includes(folder)).map((line) => `mount ${line.split(' ')[4]}`);
}

async function remains(folder: string): Promise<string[]> {
  return stat(folder).then(
    () => [`folder ${basename(folder)}`],
    () => [],
  );
}

async function isRunning(pid: number): Promise<boolean> {
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return command.includes('demo');
}
