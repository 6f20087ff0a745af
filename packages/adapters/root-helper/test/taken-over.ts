/**
 * A node that was taken over, as a process of its own: prints, as JSON, how each of its attempts ended.
 *
 *     taken-over.ts <what it knows, as JSON>
 */
import { execFileSync } from 'node:child_process';
import { open, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

interface Known {
  readonly config: {
    readonly folder: string;
    readonly runDir: string;
    readonly registry: string;
    readonly vault: string;
  };
  readonly run: string;
  readonly vmmPid: number;
  readonly helperPid: number;
  readonly fileOfAnother: string;
}

const { config, run, vmmPid, helperPid, fileOfAnother }: Known = JSON.parse(process.argv[2] ?? '');
const runFolder = join(config.runDir, run);

const attempts: Readonly<Record<string, () => unknown>> = {
  mount: () => execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', '/mnt'], { stdio: 'pipe' }),
  'unmount the vault': () => execFileSync('umount', [join(config.vault, 'mnt')], { stdio: 'pipe' }),
  'read a file of root': () => readFile('/etc/shadow'),
  'read a file of another user': () => readFile(fileOfAnother),
  'read the device under the vault': () => open(join(config.vault, 'vault.btrfs'), 'r'),
  'write to the folder of the vault': () => writeFile(join(config.vault, 'new'), ''),
  'signal process 1': () => process.kill(1, 0),
  'signal the helper': () => process.kill(helperPid, 'SIGKILL'),
  'signal a VMM': () => process.kill(vmmPid, 'SIGKILL'),
  'read the memory of a VMM': () => open(`/proc/${vmmPid}/mem`, 'r'),
  'read the descriptors of a VMM': () => readdir(`/proc/${vmmPid}/fd`),
  'read the configuration of the helper': () => readFile(join(config.folder, 'config')),
  'take the place of the helper': () => rm(join(config.folder, 'socket')),
  'make a run folder': () => writeFile(join(config.runDir, 'new'), ''),
  'rename a run folder': () => rename(runFolder, join(config.runDir, 'spare-1-2-3')),
  'change the record of a VMM': () => writeFile(join(runFolder, 'vmm.json'), `{"pid":${process.ppid},"startTime":"1"}`),
  'put a link into a run folder': () => symlink('/etc', join(runFolder, 'sockets', 'link')),
  'change the user of a VMM': () => writeFile(join(runFolder, 'uid'), '0'),
  'see which users are taken': () => readdir(config.registry),
  'become root': () => process.setuid?.(0),
};

const ends: Record<string, string> = {};
for (const [name, attempt] of Object.entries(attempts)) {
  try {
    await attempt();
    ends[name] = 'done';
  } catch {
    ends[name] = 'refused';
  }
}
// What it may: its VMMs are for it to know, and the sockets for it to connect to.
ends['read the record of a VMM'] = (await readFile(join(runFolder, 'vmm.json'), 'utf8')) === '' ? 'empty' : 'done';
process.stdout.write(JSON.stringify({ uid: process.getuid?.(), ends }));
