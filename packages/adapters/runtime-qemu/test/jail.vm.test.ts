/** A hostile program in the VMM's place: same launcher, same limits, same room. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { loadAssets } from '@space/guest-image';
import { connectHelper, type HelperLimits, socketPair, startHelper } from '@space/root-helper';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { SOCKETS } from '../src/command-line.ts';
import { identify, isAlive, type ProcessIdentity } from '../src/process-identity.ts';
import { measureTscKhz } from '../src/tsc.ts';
import { killProcess } from './kill.ts';

/** A range for each test file: a helper removes groups of its range that its own registry does not know. */
const FIRST_UID = 2_020_000_000 + (process.pid % 100_000) * 100;
const RUN = 'lif_0123456789abcdef';
const OUTPUT_LIMIT_MS = 30_000;

let folder: string;
let build: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jail-'));
  build = join(folder, 'build');
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

it('measures the rate of the TSC to a few ppm, and starts nothing for it', async () => {
  const { launcher } = (await loadAssets()).jail;
  const first = await measureTscKhz(launcher);
  const second = await measureTscKhz(launcher);
  expect(Math.abs(first / second - 1)).toBeLessThan(20e-6);
});

interface Prisoner {
  readonly limits: HelperLimits;
  readonly uid: number;
  readonly wardenPid: number;
  readonly vmm: ProcessIdentity;
  /** Resolves once it has said something that matches. */
  saying(pattern: RegExp): Promise<RegExpExecArray>;
  readonly exited: Promise<{ readonly how: string; readonly said: string }>;
}

/** As `launchVmm` does it, without the VMM's protocol. */
async function imprison(...words: string[]): Promise<Prisoner> {
  const { jail, helper: built } = await loadAssets();
  const path = await mkdtemp(join(folder, 'r'));
  const kind = { build: '0123456789abcdef0123456789abcdef', mode: 'restore', accelerator: 'tcg' } as const;
  const config = {
    ...{ node: { uid: 0, gid: 0 }, folder: join(path, 'helper'), runDir: join(path, 'run'), launcher: jail.launcher },
    uids: { first: FIRST_UID, count: 100, registry: join(folder, 'uids') },
    ...{
      vmmBuilds: { [kind.build]: build },
      vmmSockets: SOCKETS,
      bootFiles: {},
      fileBytes: 2 ** 40,
      vaults: [],
      places: {},
    },
    vmmPrograms: [{ kind, argv: [join(build, 'hostile'), ...words] }],
  };
  const process = await startHelper({ program: built.program, config });
  const helper = await connectHelper(process.socketPath);
  const { ours, theirs } = socketPair();
  let said = '';
  ours.on('data', (chunk) => {
    said += chunk;
  });
  ours.on('end', () => ours.destroy());
  const exited = once(ours, 'close').then(() => {
    const [last = '', how = ''] = /\n\[ended\] (.*)\n$/.exec(said) ?? [];
    return { how, said: said.slice(0, said.length - last.length) };
  });
  const vmm = await helper.startVmm(RUN, kind, theirs).finally(() => closeSync(theirs));
  const status = await readFile(`/proc/${vmm.pid}/status`, 'utf8');
  const uid = Number(await readFile(join(config.runDir, RUN, 'uid'), 'utf8'));
  onTestFinished(async () => {
    await helper.endVmm(RUN);
    await exited;
    await helper.clearVmm(RUN);
    expect(await readdir(config.runDir)).toEqual([]);
    expect(await groupsOf(uid)).toEqual([]);
    helper.close();
    await process.close();
  });
  return {
    limits: helper.limits,
    uid,
    wardenPid: Number(/^PPid:\t(\d+)$/m.exec(status)?.[1]),
    vmm,
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
  const { said, how } = await exited;
  expect(said.trim().split('\n')).toEqual(ATTEMPTS.map((line) => line.join(' ')));
  expect(how).toBe('status 0');
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
  if (prisoner.limits.missing.some(({ limit }) => limit === 'memory')) return context.skip();
  expect(await prisoner.exited).toEqual({ how: 'signal 9', said: '' });
});

it('leaves no process of a hostile VMM alive when it is killed, whatever it has forked', async () => {
  const { vmm, uid, saying, exited } = await imprison('cling');
  await saying(/clinging/);
  expect((await processesOf(uid)).length).toBeGreaterThan(5);
  await killProcess(vmm);
  expect(await exited).toMatchObject({ how: 'signal 9' });
  expect(await processesOf(uid)).toEqual([]);
});

it('ends with its warden, which has no privileges either', async () => {
  const { wardenPid, vmm, uid, saying } = await imprison('cling');
  await saying(/clinging/);
  const status = await readFile(`/proc/${wardenPid}/status`, 'utf8');
  expect(status).toMatch(new RegExp(`^Uid:\\s+${uid}\\s+${uid}\\s+${uid}\\s+${uid}$`, 'm'));
  expect(status).toMatch(/^CapBnd:\s+0+$/m);
  const identity = await identify(wardenPid);
  if (identity) await killProcess(identity);
  await expect.poll(() => isAlive(vmm), { timeout: 5_000 }).toBe(false);
  expect(await processesOf(uid)).toEqual([]);
});
