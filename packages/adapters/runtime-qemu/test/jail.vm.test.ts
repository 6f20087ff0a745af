/** A hostile program in the VMM's place: same launcher, same limits, same room. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { loadAssets } from '@space/guest-image';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { Jail } from '../src/jail.ts';
import { identify, isAlive, killProcess, type ProcessIdentity } from '../src/process-identity.ts';
import { RunFolder } from '../src/run-folder.ts';
import { uidOf } from '../src/vmm-uids.ts';

const FIRST_UID = 2_020_000_000;
const OUTPUT_LIMIT_MS = 30_000;

let folder: string;
let build: string;
let launcher: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jail-'));
  build = join(folder, 'build');
  launcher = (await loadAssets()).jail.launcher;
  await chmod(folder, 0o755);
  await mkdir(build);
  const source = join(import.meta.dirname, 'hostile', 'hostile.c');
  await promisify(execFile)('gcc', ['-static', '-O1', '-w', '-o', join(build, 'hostile'), source]);
  await copyFile(join(build, 'hostile'), join(build, 'setuid'));
  // What keeps them from being written is not their modes.
  await chmod(join(build, 'setuid'), 0o6777);
  await chmod(build, 0o777);
  await writeFile(join(folder, 'open-to-all'), 'a secret of the host', { mode: 0o666 });
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

interface Prisoner {
  readonly jail: Jail;
  readonly uid: number;
  readonly warden: ChildProcess;
  readonly vmm: ProcessIdentity;
  /** Resolves once it has said something that matches. */
  saying(pattern: RegExp): Promise<RegExpExecArray>;
  readonly exited: Promise<{ readonly code: number | null; readonly signal: string | null; readonly said: string }>;
}

/** As `launchVmm` does it, without the VMM's protocol. */
async function imprison(...words: string[]): Promise<Prisoner> {
  const { kernel, initramfs } = await loadAssets();
  const vmm = { root: build, argv: [join(build, 'hostile'), ...words], digest: 'hostile', version: '0' };
  const uids = { first: FIRST_UID, count: 100, registry: join(folder, 'uids') };
  const jail = await Jail.open({ jail: { launcher, uids }, vmm, kernel, initramfs, accelerator: 'tcg' });
  const run = await RunFolder.create(await mkdtemp(join(folder, 'r')).then((path) => join(path, 'run')));
  const { uid, argv } = await jail.prepare(run, 'restore');
  const warden = spawn(argv[0] ?? '', argv.slice(1), {
    cwd: run.sockets,
    env: { SECRET: 'of the host' },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  warden.stderr.on('data', (chunk) => {
    said += chunk;
  });
  const exited = once(warden, 'close').then(([code, signal]) => ({ code, signal, said }));
  await once(warden.stdout, 'data');
  const recorded = await run.readRecord();
  if (!recorded) throw new Error('the launcher has recorded nothing');
  onTestFinished(async () => {
    await killProcess(recorded);
    await exited;
    await jail.clear(run);
    expect(await uidOf(run.path)).toBeNull();
    expect(await groupsOf(uid)).toEqual([]);
  });
  return {
    jail,
    uid,
    warden,
    vmm: recorded,
    exited,
    async saying(pattern) {
      await expect.poll(() => said, { timeout: OUTPUT_LIMIT_MS }).toMatch(pattern);
      return pattern.exec(said) ?? expect.fail();
    },
  };
}

/** Every process that runs as that user, anywhere on the machine. */
async function processesOf(uid: number): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const owned = await Promise.all(
    pids.map(async (pid) => {
      const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
      return status.includes(`\nUid:\t${uid}\t`) && !/\nState:\tZ/.test(status) ? pid : [];
    }),
  );
  return owned.flat();
}

async function groupsOf(uid: number): Promise<string[]> {
  const { stdout } = await promisify(execFile)('find', ['/sys/fs/cgroup', '-maxdepth', '4', '-name', `vmm-${uid}`]);
  return stdout.split('\n').filter(Boolean);
}

async function listenAbstract(name: string): Promise<void> {
  const server = createServer((socket) => socket.destroy());
  server.listen(`\0${name}`);
  await once(server, 'listening');
  onTestFinished(() => new Promise((done) => server.close(() => done())));
}

const ATTEMPTS: readonly (readonly [attempt: string, ends: string])[] = [
  ['read_passwd', 'ENOENT'],
  ['read_passwd_upwards', 'ENOENT'],
  ['read_host_file', 'ENOENT'],
  ['read_other_life', 'ENOENT'],
  ['see_processes', 'ENOENT'],
  ['read_own_root_link', 'ENOENT'],
  ['own_pid', '1'],
  // Standard input, output and error, and the four sockets.
  ['descriptors', '7'],
  ['environment', '0'],
  ['signal_host_process', 'ESRCH'],
  ['signal_everyone', 'ESRCH'],
  ['trace', 'EPERM'],
  ['read_memory_of_another', 'EPERM'],
  ['take_descriptor_of_another', 'EPERM'],
  ['socket_inet', 'EAFNOSUPPORT'],
  ['socket_inet6', 'EAFNOSUPPORT'],
  ['socket_netlink', 'EAFNOSUPPORT'],
  ['socket_packet', 'EAFNOSUPPORT'],
  ['socket_vsock', 'EAFNOSUPPORT'],
  ['socket_alg', 'EAFNOSUPPORT'],
  ['connect_abstract', 'ECONNREFUSED'],
  ['connect_path', 'ENOENT'],
  ['mount', 'EPERM'],
  ['remount_root', 'EPERM'],
  ['unmount', 'EPERM'],
  ['open_tree', 'EPERM'],
  ['user_namespace', 'EPERM'],
  ['clone_user_namespace', 'EPERM'],
  ['clone3', 'ENOSYS'],
  ['enter_namespace', 'EPERM'],
  ['chroot', 'EPERM'],
  ['open_by_handle', 'EPERM'],
  ['become_root', 'EPERM'],
  ['become_root_group', 'EPERM'],
  ['add_group', 'EPERM'],
  ['take_capabilities', 'EPERM'],
  ['allow_new_privileges', 'EINVAL'],
  ['raise_limit', 'EPERM'],
  ['allow_core_files', 'EPERM'],
  ['realtime', 'EPERM'],
  ['higher_priority', 'EACCES'],
  ['lock_memory', 'ENOMEM'],
  ['setuid_program_runs_as_root', '0'],
  ['write_root', 'EROFS'],
  ['write_dev', 'EROFS'],
  ['write_descriptors', 'ENOENT'],
  ['write_build', 'EROFS'],
  ['write_program', 'EROFS'],
  ['make_device', 'EPERM'],
  ['open_memory_device', 'ENOENT'],
  ['open_kvm', 'ENOENT'],
  ['open_null', 'ok'],
  ['add_key', 'EPERM'],
  ['keyctl', 'EPERM'],
  ['io_uring', 'EPERM'],
  ['bpf', 'EPERM'],
  ['perf', 'EPERM'],
  ['userfaultfd', 'EPERM'],
  ['load_module', 'EPERM'],
  ['kernel_log', 'EPERM'],
  ['set_clock', 'EPERM'],
  ['set_hostname', 'EPERM'],
  ['personality', 'EPERM'],
];

it('lets a hostile VMM reach nothing of the host or of another life', async () => {
  const other = await imprison('cling');
  await other.saying(/clinging/);
  const name = `space-jail-${process.pid}`;
  await listenAbstract(name);
  const otherLife = `/proc/${other.vmm.pid}/root/dev/null`;
  const arguments_ = [build, join(folder, 'open-to-all'), otherLife, name, String(process.pid)];
  const { exited } = await imprison('all', ...arguments_);
  const { said, code } = await exited;
  expect(said.trim().split('\n')).toEqual(ATTEMPTS.map((line) => line.join(' ')));
  expect(code).toBe(0);
});

it('stops a hostile VMM that forks without end', async () => {
  const { saying, uid } = await imprison('fork');
  const [, count, errno] = await saying(/forked (\d+) (\w+)/);
  expect(Number(count)).toBeLessThan(128);
  expect(errno).toBe('EAGAIN');
  expect((await processesOf(uid)).length).toBeLessThanOrEqual(129);
});

it('kills a hostile VMM that takes memory without end, and nobody else', async (context) => {
  const prisoner = await imprison('memory');
  if (prisoner.jail.report.missing.some(({ limit }) => limit === 'memory')) return context.skip();
  expect(await prisoner.exited).toMatchObject({ code: null, signal: 'SIGKILL', said: '' });
});

it('leaves no process of a hostile VMM alive when it is killed, whatever it has forked', async () => {
  const { vmm, uid, saying, exited } = await imprison('cling');
  await saying(/clinging/);
  expect((await processesOf(uid)).length).toBeGreaterThan(5);
  await killProcess(vmm);
  expect(await exited).toMatchObject({ signal: 'SIGKILL' });
  expect(await processesOf(uid)).toEqual([]);
});

it('ends with its warden, which has no privileges either', async () => {
  const { warden, vmm, uid, saying } = await imprison('cling');
  await saying(/clinging/);
  const status = await readFile(`/proc/${warden.pid}/status`, 'utf8');
  expect(status).toMatch(new RegExp(`^Uid:\\s+${uid}\\s+${uid}\\s+${uid}\\s+${uid}$`, 'm'));
  expect(status).toMatch(/^CapBnd:\s+0+$/m);
  const identity = await identify(warden.pid ?? 0);
  if (identity) await killProcess(identity);
  await expect.poll(() => isAlive(vmm), { timeout: 5_000 }).toBe(false);
  expect(await processesOf(uid)).toEqual([]);
});
