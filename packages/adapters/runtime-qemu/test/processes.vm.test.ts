/** What the suite of all runtimes does not ask: processes, files, limits and failures of real VMMs. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { access, mkdir, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { AppError, type VaultName, type Vm, type VmRecord, type VmSpec } from '@space/core';
import { loadAssets } from '@space/guest-image';
import { connectForFiles, type FileSocket } from '@space/root-helper';
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from 'vitest';
import { machineFacts } from '../src/command-line.ts';
import { probeAccelerator } from '../src/index.ts';
import { keepBuild } from '../src/kept-builds.ts';
import { identify } from '../src/process-identity.ts';
import { killProcess } from './kill.ts';
import { openQemuWorld, type QemuWorld } from './qemu-world.ts';
import { floodingGuest, panickingGuest } from './tiny-guest.ts';

const run = promisify(execFile);
const MIB = 1024 * 1024;

let world: QemuWorld;
let point: { readonly life: VmSpec; readonly deviceState: Uint8Array };

beforeAll(async () => {
  world = await openQemuWorld();
  const life = await world.newLife();
  const vm = await world.runtime.boot(life);
  await world.remember(vm, 'first');
  await vm.stop();
  const deviceState = await vm.checkpoint();
  point = { life: await world.copyLife(life), deviceState };
  await vm.kill();
});
afterEach(async () => {
  for (const record of await world.runtime.survivors()) await killProcess(record);
});
afterAll(async () => {
  await world?.close();
});

async function start(): Promise<Vm> {
  return await world.runtime.restore(await world.copyLife(point.life), point.deviceState);
}

async function bootWith(initramfs: Buffer): Promise<Vm> {
  const path = join(world.folder, 'initramfs');
  await writeFile(path, initramfs);
  const runtime = await world.openChanged({ initramfs: { path, digest: 'test' } });
  return await runtime.boot(await world.newLife());
}

async function failureOf(outcome: Promise<unknown>): Promise<AppError> {
  const thrown = await outcome.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (thrown instanceof AppError) return thrown;
  throw new Error(`expected an AppError, not ${thrown}`, { cause: thrown });
}

it('maps the memory of a guest in small pages, so that one that is touched does not bring in megabytes', async () => {
  const vm = await start();
  await vm.run();
  await world.recall(vm);
  const mappings = (await readFile(`/proc/${vm.record.pid}/smaps`, 'utf8')).split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  const memory = mappings.filter((text) => / rw-s /.test(text) && text.includes('Size:             262144 kB'));
  expect(memory).toHaveLength(1);
  expect(/^VmFlags:.*$/m.exec(memory[0] ?? '')?.[0]).not.toMatch(/ hg\b/);
});

it('runs the VMM without privileges, network, environment or core files, first in line for the OOM killer', async () => {
  const [{ record }, other] = [await start(), await start()];
  const proc = `/proc/${record.pid}`;
  const status = await readFile(`${proc}/status`, 'utf8');
  const uid = await uidOf(record);
  const { first, count } = world.uids;
  expect(uid >= first && uid < first + count && uid !== (await uidOf(other.record))).toBe(true);
  expect(status).toMatch(new RegExp(`^Uid:\\s+${uid}\\s+${uid}\\s+${uid}\\s+${uid}$`, 'm'));
  expect(status).toMatch(new RegExp(`^Gid:\\s+${uid}\\s+${uid}\\s+${uid}\\s+${uid}$`, 'm'));
  expect(status).toMatch(/^NSpid:\s+\d+\s+1$/m);
  expect(status).toMatch(/^Groups:\s*$/m);
  for (const set of ['Inh', 'Prm', 'Eff', 'Bnd', 'Amb']) {
    expect(status).toMatch(new RegExp(`^Cap${set}:\\s+0+$`, 'm'));
  }
  expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
  expect(status).toMatch(/^Seccomp:\s+2$/m);
  expect(await readFile(`${proc}/limits`, 'utf8')).toMatch(/^Max core file size\s+0\s+0/m);
  expect(await readFile(`${proc}/oom_score_adj`, 'utf8')).toBe('500\n');
  expect(await readFile(`${proc}/environ`, 'utf8')).toBe('');
  for (const space of ['net', 'mnt', 'pid', 'ipc', 'uts', 'cgroup']) {
    const namespace = await readlink(`${proc}/ns/${space}`);
    expect(namespace).not.toBe(await readlink(`/proc/self/ns/${space}`));
    expect(namespace).not.toBe(await readlink(`/proc/${other.record.pid}/ns/${space}`));
  }
  expect(await readdir(`${proc}/root`)).toEqual(['dev', 'fd', 'var']);
  expect((await readdir(`${proc}/root/dev`)).sort()).toEqual(['null', 'urandom', 'zero']);
  expect((await stat(record.runDir)).uid).toBe(0);
});

async function uidOf({ pid }: VmRecord): Promise<number> {
  return (await stat(`/proc/${pid}`)).uid;
}

it('holds the VMM to memory, CPU and tasks by its size, and says which limits are in force', async () => {
  const { record } = await start();
  const { inForce, missing } = world.runtime.jail;
  expect(inForce.length + missing.length).toBe(4);
  const group = (name: string) => groupOf(record, name);
  if (inForce.includes('memory (cgroup v1)')) {
    expect(await readFile(join(await group('memory'), 'memory.limit_in_bytes'), 'utf8')).toBe(`${640 * MIB}\n`);
  }
  if (inForce.includes('cpu (cgroup v1)')) {
    expect(await readFile(join(await group('cpu'), 'cpu.cfs_quota_us'), 'utf8')).toBe('150000\n');
  }
  if (inForce.includes('pids (cgroup v1)')) {
    expect(await readFile(join(await group('pids'), 'pids.max'), 'utf8')).toBe('128\n');
  }
  if (inForce.includes('memory (cgroup v2)')) {
    expect(await readFile(join(await group(''), 'memory.max'), 'utf8')).toBe(`${640 * MIB}\n`);
  }
  // Written, whether or not a disk's scheduler goes by it, which is what is said.
  const io = missing.find(({ limit }) => limit === 'io');
  if (io?.reason.startsWith('blkio.bfq.weight counts only')) {
    expect(await readFile(join(await group('blkio'), 'blkio.bfq.weight'), 'utf8')).toBe('100\n');
  }
});

it('reclaims guest memory at the limit, and kills nothing: it is page cache of a file', async (context) => {
  if (!world.runtime.jail.inForce.includes('memory (cgroup v1)')) return context.skip();
  const vm = await start();
  await vm.run();
  await world.recall(vm);
  const group = await groupOf(vm.record, 'memory');
  await writeFile(join(group, 'memory.limit_in_bytes'), String(128 * MIB));
  // More than fits beside the VMM's own memory; what was written first has to leave for what comes after it.
  const written = randomBytes(90 * MIB);
  await world.openGuest(vm, async (guest) => {
    await guest.writeFile({ path: '/dev/shm/large', user: 'root' }, inPieces(written));
    const { body } = await guest.readFile({ path: '/dev/shm/large', user: 'root' });
    expect(Buffer.concat(await Array.fromAsync(body)).equals(written)).toBe(true);
  });
  expect(Number(await readFile(join(group, 'memory.failcnt'), 'utf8'))).toBeGreaterThan(0);
  expect(await readFile(join(group, 'memory.oom_control'), 'utf8')).toMatch(/^oom_kill 0$/m);
  expect(await world.recall(vm)).toBe('first');
});

it('says that a VM stands still because its disk cannot grow, and goes on when it can', async () => {
  const life = await world.copyLife(point.life);
  const small = join(world.folder, 'small');
  const { blocks } = await stat(life.files.disk);
  const bytes = blocks * 512 + life.size.memoryMib * MIB;
  const mount = (spareMib: number, more = '') =>
    run('mount', ['-t', 'tmpfs', '-o', `${more}size=${bytes + spareMib * MIB}`, 'tmpfs', small]);
  await mount(20);
  onTestFinished(async () => {
    for (const record of await world.runtime.survivors()) await killProcess(record);
    await run('umount', [small]);
  });
  const folder = join(small, 'lives', life.lifeId);
  await mkdir(folder, { recursive: true });
  for (const file of Object.values(life.files)) await run('cp', ['--sparse=always', file, folder]);
  // All of it is there: what grows is the disk.
  await run('fallocate', ['--length', `${life.size.memoryMib}MiB`, join(folder, 'memory')]);
  const vm = await world.runtime.restore({ ...life, vault: 'small' as VaultName }, point.deviceState);
  await vm.run();
  const written = world.openGuest(vm, (guest) =>
    guest.writeFile({ path: '/root/large', user: 'root' }, inPieces(randomBytes(40 * MIB))),
  );
  await expect.poll(() => failureCode(vm.run()), { timeout: 60_000, interval: 500 }).toBe('insufficient_space');
  await mount(200, 'remount,');
  await vm.run();
  await written;
  expect(await world.recall(vm)).toBe('first');
});

async function failureCode(outcome: Promise<unknown>): Promise<string | null> {
  return await outcome.then(
    () => null,
    (thrown: unknown) => (thrown instanceof AppError ? thrown.code : String(thrown)),
  );
}

it('says of a VMM that was stopped that it does not answer, not that it is lost, and goes on when it does', async () => {
  const vm = await start();
  await vm.run();
  process.kill(vm.record.pid, 'SIGSTOP');
  expect(await failureOf(vm.stop())).toMatchObject({ code: 'vm_unresponsive' });
  process.kill(vm.record.pid, 'SIGCONT');
  await vm.stop();
  await vm.run();
  await vm.kill();
});

it('starts a VMM of its own when the spare dies as it is claimed', async () => {
  const life = await world.copyLife(point.life);
  await world.runtime.sparesSettled();
  const spare = (await readdir(world.options.runDir)).find((name) => name.startsWith('spare')) ?? '';
  const { pid } = JSON.parse(await readFile(join(world.options.runDir, spare, 'vmm.json'), 'utf8'));
  // Nobody has noticed its death when it is claimed.
  process.kill(pid, 'SIGKILL');
  const vm = await world.runtime.restore(life, point.deviceState);
  await vm.run();
  expect(await world.recall(vm)).toBe('first');
});

/** The VMM's cgroup in the tree of this name below /sys/fs/cgroup. */
async function groupOf(record: VmRecord, tree: string): Promise<string> {
  return join('/sys/fs/cgroup', tree, 'space', `vmm-${await uidOf(record)}`);
}

async function* inPieces(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let from = 0; from < bytes.length; from += MIB) yield bytes.subarray(from, from + MIB);
}

it('takes snapshots that restore while bytes pour into a port and out of it', async () => {
  let vm = await start();
  let life: VmSpec = point.life;
  for (let cycle = 0; cycle < 10; cycle++) {
    await vm.run();
    const port = await vm.connect('control');
    port.on('error', () => {});
    port.resume();
    const pour = setInterval(() => port.writableLength < 1_000_000 && port.write(Buffer.alloc(50_000)), 1);
    await sleep(20);
    await vm.stop();
    const deviceState = await vm.checkpoint();
    await sleep(20);
    life = await world.copyLife(lifeOf(vm, life));
    clearInterval(pour);
    await vm.kill();
    vm = await world.runtime.restore(life, deviceState);
  }
  await vm.run();
  expect(await world.recall(vm)).toBe('first');
});

/** The files of a VM, found by its open disk: the world names them by life. */
function lifeOf(vm: Vm, like: VmSpec): VmSpec {
  const path = join(world.folder, 'lives', vm.record.lifeId);
  const files = { disk: join(path, 'disk.img'), memory: join(path, 'memory') };
  return { ...like, lifeId: vm.record.lifeId, files };
}

it('is adopted after the process that started it was killed', async () => {
  const life = await world.copyLife(point.life);
  const order = join(world.folder, 'order.json');
  const deviceState = Buffer.from(point.deviceState).toString('base64');
  const { helper: _, ...options } = world.options;
  const { socketPath } = world.helper;
  await writeFile(order, JSON.stringify({ options, socketPath, life, deviceState }));
  const record = await new Promise<VmRecord>((resolve) => {
    execFile(process.execPath, [join(import.meta.dirname, 'start-vm.ts'), order], (_killed, stdout) =>
      resolve(JSON.parse(stdout)),
    );
  });
  const second = await world.reopen();
  expect(await second.survivors()).toEqual([record]);
  expect((await readdir(world.options.runDir)).filter((name) => name.startsWith('spare'))).toHaveLength(1);
  const adopted = await second.adopt(record);
  if (!adopted) throw new Error('the VM is gone');
  expect(await world.recall(adopted)).toBe('first');
  process.kill(record.pid, 'SIGKILL');
  expect(await adopted.ended).toMatchObject({ cause: 'exited' });
  expect(await second.survivors()).toEqual([]);
});

it('is adopted while it does not answer, and serves all who come once it does', { timeout: 120_000 }, async () => {
  const vm = await world.runtime.restore(await world.copyLife(point.life), point.deviceState);
  await vm.run();
  await vm.release();
  const second = await world.reopen();
  process.kill(vm.record.pid, 'SIGSTOP');
  const adopted = await second.adopt(vm.record);
  if (!adopted) throw new Error('the VM is gone');
  expect((await failureOf(adopted.stop())).code).toBe('vm_unresponsive');
  const waiting = untilTheQueueIsFull(join(vm.record.runDir, 'sockets/qmp'));
  // Both find no connection, and there is room for one, once there is any.
  const answers = Promise.all([adopted.diskWrittenBytes(), adopted.diskWrittenBytes()]);
  await sleep(100);
  for (const { socket } of waiting) socket.destroy();
  process.kill(vm.record.pid, 'SIGCONT');
  expect(await answers).toEqual([expect.any(Number), expect.any(Number)]);
  expect(await world.recall(adopted)).toBe('first');
  await adopted.kill();
});

it('is not held up, and holds nothing up, by a guest that prints for ever', async () => {
  const vm = await bootWith(floodingGuest('flood \x1b[2J\n'));
  await expect.poll(() => vm.console().length, { timeout: 60_000 }).toBeGreaterThan(60_000);
  expect(vm.console().length).toBeLessThanOrEqual(64 * 1024);
  const from = performance.now();
  await vm.stop();
  await vm.run();
  expect(performance.now() - from).toBeLessThan(2_000);
  expect((await readdir(join(vm.record.runDir, 'sockets'))).sort()).toEqual(['console', 'control', 'qmp', 'traffic']);
  await vm.kill();
});

it('tells why a VM ended by itself, and keeps its last words', async () => {
  const vm = await bootWith(panickingGuest());
  const end = await vm.ended;
  expect(end.cause).toBe('exited');
  expect(end.detail).toContain('guest-reset');
  expect(vm.console()).toContain('Kernel panic');
  await expect(access(vm.record.runDir)).rejects.toThrow('ENOENT');
});

it.each(['disk', 'memory'] as const)('fails a restore without its %s file, and leaves nothing behind', async (file) => {
  const life = await world.copyLife(point.life);
  await rm(life.files[file]);
  const failure = await failureOf(world.runtime.restore(life, point.deviceState));
  expect(failure.code).toBe('restore_failed');
  expect(failure.message).toMatch(/no such file/i);
  expect(await world.runtime.survivors()).toEqual([]);
});

it('fails a boot without its kernel, and says so', async () => {
  const kernel = { vmlinux: '/no/such/kernel', digest: 'test' };
  const runtime = await world.openChanged({ kernel });
  const failure = await failureOf(runtime.boot(await world.newLife()));
  expect(failure.code).toBe('boot_failed');
  expect(failure.message).toContain('/no/such/kernel');
  expect(await runtime.survivors()).toEqual([]);
});

it('ends a VMM that hangs while starting when the caller gives up', async () => {
  const vmm = { root: '/usr', argv: ['/usr/bin/sleep', '600'], digest: 'e'.repeat(64), version: 'test' };
  const runtime = await world.openChanged({ vmm });
  const failure = await failureOf(runtime.boot(await world.newLife(), AbortSignal.timeout(300)));
  expect(failure.code).toBe('boot_failed');
  expect(await runtime.survivors()).toEqual([]);
});

it('goes on without a spare that died', async () => {
  await world.runtime.sparesSettled();
  const spare = (await readdir(world.options.runDir)).find((name) => name.startsWith('spare'));
  const { pid } = JSON.parse(await readFile(join(world.options.runDir, spare ?? '', 'vmm.json'), 'utf8'));
  const identity = await identify(pid);
  if (!identity) throw new Error('the spare is not there');
  await killProcess(identity);
  await expect.poll(() => readdir(world.options.runDir), { timeout: 5_000 }).not.toContain(spare);
  const vm = await start();
  await vm.run();
  expect(await world.recall(vm)).toBe('first');
});

it('finds an accelerator by running a VM, and remembers what it found', async () => {
  const cacheFile = join(world.folder, 'accelerator.json');
  const options = { ...world.options, workDir: join(world.folder, 'probe'), cacheFile };
  const found = await probeAccelerator(options);
  expect(['kvm', 'tcg']).toContain(found.name);
  expect(found.name === 'kvm' || (found.reason !== '' && found.remedy !== null)).toBe(true);
  const from = performance.now();
  expect(await probeAccelerator(options)).toEqual(found);
  expect(performance.now() - from).toBeLessThan(100);
  expect(await readdir(join(options.workDir, 'lives')).catch(() => [])).toEqual([]);
});

it('restores by the build that saved the checkpoint when another one is the present, and still knows which after it was let go of', async () => {
  const { vmm, ...rest } = world.options;
  const vmms = join(world.folder, 'vmm');
  const unpackedAgain = { ...(await loadAssets()).vmm, digest: 'f'.repeat(64) };
  const { present } = await keepBuild(vmms, unpackedAgain);
  const runtime = await world.openChanged({ vmm: present, earlier: [vmm] });
  expect([...new Set(runtime.machines.map(({ vmmBuild }) => vmmBuild))]).toEqual([present.digest, vmm.digest]);
  const machine = machineFacts({ ...rest, vmm });
  const vm = await runtime.restore(await world.copyLife(point.life), point.deviceState, { machine });
  await vm.run();
  expect(await world.recall(vm)).toBe('first');
  expect(vm.machine.vmmBuild).toBe(vmm.digest);
  const { record } = vm;
  expect(await readlink(`/proc/${record.pid}/exe`)).toContain(vmm.root);
  await vm.release();
  const adopted = await (await world.openChanged({ vmm: present, earlier: [vmm] })).adopt(record);
  expect(adopted?.machine.vmmBuild).toBe(vmm.digest);
  await adopted?.kill();
  const fresh = await runtime.boot(await world.newLife());
  expect(fresh.machine.vmmBuild).toBe(present.digest);
  await fresh.kill();
});

/** Connections that nobody takes. */
function untilTheQueueIsFull(socketPath: string): FileSocket[] {
  const waiting: FileSocket[] = [];
  try {
    for (;;) waiting.push(connectForFiles(socketPath));
  } catch (cause) {
    expect(cause).toMatchObject({ code: 'EAGAIN' });
    return waiting;
  }
}
