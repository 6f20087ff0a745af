/**
 * A systemd of the test's own: process 1 of namespaces, with units of the test's alone and a copy of /etc. What it starts is real, and sees
 * the machine; when it is killed, all that it has started ends with it.
 */
import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';

const run = promisify(execFile);

/** Null: there is none on this machine. */
export const SYSTEMD = ['/usr/lib/systemd/systemd', '/lib/systemd/systemd'].find((path) => existsSync(path)) ?? null;
/** What any unit waits for, or goes with; empty here. */
const TARGETS = ['sysinit', 'basic', 'multi-user', 'shutdown', 'umount', 'local-fs', 'network-online', 'space-test'];
/** Whose groups a process cannot enter just so. */
const NOT_ENTERED = ['cpuset', 'freezer', 'devices'];

const ENTER = `
set -eu
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/lock /run/systemd
cp -a /etc/. "$FOLDER/etc" && mount --bind "$FOLDER/etc" /etc
rm -rf /etc/systemd/system && mkdir -p /etc/systemd/system
mount -t tmpfs tmpfs /opt && mkdir /opt/space && mount --bind "$CHECKOUT" /opt/space
exec env -i container=space-test PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_UNIT_PATH="/etc/systemd/system:$FOLDER/units" \\
  "$SYSTEMD" --system --unit=space-test.target --log-target=console --log-level=warning`;

export interface Systemd extends AsyncDisposable {
  /** Its /etc, as it is outside. */
  readonly etc: string;
  /** Runs a program where it is process 1; returns what that prints. */
  run(...words: string[]): Promise<string>;
}

/** `folder`: an empty one, for its /etc and its units. `checkout` is what it sees at /opt/space. */
export async function startSystemd(folder: string, checkout: string): Promise<Systemd> {
  if (SYSTEMD === null) throw new Error('there is no systemd here');
  const [etc, units] = [join(folder, 'etc'), join(folder, 'units')];
  await mkdir(etc);
  await mkdir(units);
  for (const target of TARGETS) {
    await writeFile(join(units, `${target}.target`), '[Unit]\nDefaultDependencies=no\nAllowIsolate=yes\n');
  }
  const groups = await makeGroups();
  const script = `for group; do echo $$ >"$group/cgroup.procs"; done; exec unshare --mount --pid --uts --ipc --cgroup --fork --kill-child --propagation private sh -c "$ENTER"`;
  const child = spawn('sh', ['-euc', script, 'sh', ...groups], {
    env: { ...process.env, ENTER, FOLDER: folder, CHECKOUT: checkout, SYSTEMD },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const inside = async (...words: string[]) => {
    const [init = ''] = (await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')).split(' ');
    const { stdout } = await run('nsenter', ['--target', init, '--mount', '--pid', '--cgroup', '--', ...words]);
    return stdout;
  };
  const dispose = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await ended;
    for (const group of groups) await removeGroup(group);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await expect
      .poll(() => inside('systemctl', 'is-system-running').catch(({ stdout }) => stdout), { timeout: 20_000 })
      .toMatch(/running|degraded/);
  } catch (thrown) {
    await dispose();
    throw thrown;
  }
  return { etc, run: inside, [Symbol.asyncDispose]: dispose };
}

/** A group in each hierarchy of the machine, which is the root of what it sees. */
async function makeGroups(): Promise<readonly string[]> {
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' '));
  const roots = mounts
    .filter(([, , type]) => type === 'cgroup' || type === 'cgroup2')
    .filter(([, , , options = '']) => !NOT_ENTERED.some((name) => options.split(',').includes(name)))
    .map(([, path = '']) => path);
  const groups = roots.map((root) => join(root, `space-systemd-${process.pid}`));
  for (const group of groups) await mkdir(group);
  return groups;
}

async function removeGroup(group: string): Promise<void> {
  for (const entry of await readdir(group, { withFileTypes: true })) {
    if (entry.isDirectory()) await removeGroup(join(group, entry.name));
  }
  // What was killed is there for a moment.
  await expect.poll(() => rmdir(group).then(() => 'gone', String), { timeout: 10_000 }).toBe('gone');
}
