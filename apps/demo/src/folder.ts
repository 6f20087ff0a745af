/**
 * The demo's own data folder: made for one run, and removed with all that runs or is mounted in it. The folder's name
 * holds the pid of its run, so that a later run can remove what a killed one left.
 */
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type Config, configFrom, mountsNaming, type Platform, processesNaming, startPlatform } from '@space/server';

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
    ...(await processesNaming(folder.path, runDir)),
    ...(await mountsNaming(folder.path)),
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
