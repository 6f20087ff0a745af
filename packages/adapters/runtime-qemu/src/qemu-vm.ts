/**
 * One running VM, whoever started its process. All that it says of the guest it reads back from QEMU.
 *
 * The QMP connection may break while the process lives; it is made anew at the next command. That the VM has ended is
 * known from its process alone.
 */
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AppError,
  type ErrorCode,
  type GuestPort,
  type MachineFacts,
  type Vm,
  type VmEnd,
  type VmRecord,
  type VmUsage,
} from '@space/core';
import type { RootHelper } from '@space/root-helper';
import { z } from 'zod';
import { ByteRing, harmlessTail } from './byte-ring.ts';
import { endMigration, fetchDeviceState } from './device-state.ts';
import { connectQmp, type Launched } from './launch.ts';
import { connectPort } from './port-stream.ts';
import { isAlive, usageOf } from './process-identity.ts';
import type { Qmp } from './qmp.ts';
import { RunFolder } from './run-folder.ts';
import { connectUnix } from './sockets.ts';

const CONSOLE_BYTES = 64 * 1024;
/** A dead process closes its console at once. */
const CONSOLE_END_MS = 500;
const POLL_MS = 200;
const DISK_RETRY_MS = 100;
const RECONNECT_LIMIT_MS = 5_000;

export class QemuVm implements Vm {
  readonly record: VmRecord;
  readonly machine: MachineFacts;
  readonly ended: Promise<VmEnd>;
  readonly #folder: RunFolder;
  readonly #launched: Launched | null;
  readonly #helper: RootHelper;
  readonly #console = new ByteRing(CONSOLE_BYTES);
  readonly #released = new AbortController();
  readonly #ports = new Map<GuestPort, Duplex>();
  #consoleSocket: Socket | null = null;
  /** Null, or closed: it is made anew when it is needed. */
  #qmp: Qmp | null;
  #connecting: Promise<Qmp> | null = null;
  /** Why the guest shut itself down, if it said so. */
  #shutdown = '';
  /** As the VMM last told of it by itself. */
  #running: boolean | null = null;
  /** Why the VMM stopped the vCPUs by itself: a request to the disk failed, and waits to be tried again. */
  #diskFailure: DiskFailure | null = null;
  #killed = false;
  /** The state at the last checkpoint, while the vCPUs have not run since: QEMU saves it only once. */
  #checkpointed: Uint8Array | null = null;

  /** Without QMP: one that is taken up, and does not answer now. */
  constructor(record: VmRecord, machine: MachineFacts, qmp: Qmp | null, helper: RootHelper, launched: Launched | null) {
    this.record = record;
    this.machine = machine;
    this.#folder = new RunFolder(record.runDir);
    this.#helper = helper;
    this.#launched = launched;
    this.#qmp = qmp === null ? null : this.#attend(qmp);
    this.ended = this.#watch();
  }

  get starved(): boolean {
    return this.#diskFailure?.full === true;
  }

  /** The console's last part is lost when nobody listens; the guest is never held up by it. */
  async openConsole(): Promise<void> {
    const socket = await connectUnix(this.#folder.socket('console'));
    socket.on('error', () => {});
    socket.on('data', (chunk) => this.#console.push(chunk));
    this.#consoleSocket = socket;
  }

  async run(): Promise<void> {
    await this.#command('vm_unresponsive', 'run', async (qmp) => {
      this.#checkpointed = null;
      const failed = this.#diskFailure !== null;
      this.#diskFailure = null;
      await this.#switch(qmp, 'cont', true);
      // The failed request is tried again at once, and fails as fast as before.
      if (failed) await sleep(DISK_RETRY_MS);
      if (this.#diskFailure !== null) throw diskError(this.#diskFailure);
    });
  }

  async stop(): Promise<void> {
    await this.#command('vm_unresponsive', 'stop', async (qmp) => {
      await this.#switch(qmp, 'stop', false);
    });
  }

  async checkpoint(): Promise<Uint8Array> {
    return await this.#command('snapshot_failed', 'checkpoint', async (qmp) => {
      const { running } = await queryStatus(qmp);
      if (running) throw new Error('The vCPUs are running');
      this.#checkpointed ??= await fetchDeviceState(qmp);
      return this.#checkpointed;
    });
  }

  /** Takes the place of the connection before. */
  async connect(port: GuestPort): Promise<Duplex> {
    this.#ports.get(port)?.destroy();
    try {
      const stream = await connectPort(this.#folder.socket(port));
      this.#ports.set(port, stream);
      return stream;
    } catch (cause) {
      // The error's own text names a path of the host, and this one reaches the tenant.
      const why = cause instanceof Error && 'code' in cause ? String(cause.code) : 'it is not listening';
      throw await this.#failure('link_lost', `connect to ${port}`, new Error(why, { cause }));
    }
  }

  console(): string {
    return this.#console.text();
  }

  async usage(): Promise<VmUsage> {
    const usage = await usageOf(this.record);
    if (usage === null) throw new AppError('vm_lost', `The VM of ${this.record.lifeId} has ended.`);
    return usage;
  }

  async diskWrittenBytes(): Promise<number> {
    return await this.#command('vm_unresponsive', 'ask for what was written', async (qmp) => {
      const disks = blockStatsSchema.parse(await qmp.execute('query-blockstats'));
      return disks.reduce((sum, { stats }) => sum + stats.wr_bytes, 0);
    });
  }

  async kill(): Promise<void> {
    this.#killed = true;
    if (this.#launched) await this.#launched.kill();
    else await this.#helper.endVmm(this.record.lifeId);
    if (!this.#released.signal.aborted) await this.ended;
  }

  async release(): Promise<void> {
    this.#released.abort();
    for (const stream of this.#ports.values()) stream.destroy();
    this.#qmp?.close();
    this.#consoleSocket?.destroy();
    this.#launched?.disown();
  }

  #attend(qmp: Qmp): Qmp {
    qmp.onEvent(({ name, data: { reason, action, nospace } }) => {
      if (name === 'RESUME') this.#running = true;
      if (name === 'STOP') this.#running = false;
      if (name === 'BLOCK_IO_ERROR' && action === 'stop')
        this.#diskFailure = { full: nospace === true, reason: String(reason) };
      if (name === 'SHUTDOWN') this.#shutdown = ` after ${harmlessTail(String(reason), 50)}`;
    });
    return qmp;
  }

  /** QEMU tells of the change by an event before it answers. Without one, it is asked: a question costs vCPU time. */
  async #switch(qmp: Qmp, command: 'cont' | 'stop', running: boolean): Promise<void> {
    this.#running = null;
    await qmp.execute(command);
    this.#running ??= (await queryStatus(qmp)).running;
    if (this.#running !== running) throw new Error(`The VMM accepted ${command} and did not do it`);
  }

  /** Runs commands of QMP, connecting anew where needed; what goes wrong becomes `code`, or `vm_lost` when the VM is dead. */
  async #command<T>(code: ErrorCode, what: string, action: (qmp: Qmp) => Promise<T>): Promise<T> {
    try {
      return await action(await this.#connected());
    } catch (cause) {
      throw await this.#failure(code, what, cause);
    }
  }

  /** QEMU serves one connection at a time: all who find none wait for the same. */
  async #connected(): Promise<Qmp> {
    if (this.#qmp !== null && !this.#qmp.closed) return this.#qmp;
    this.#connecting ??= this.#connectAnew().finally(() => {
      this.#connecting = null;
    });
    return await this.#connecting;
  }

  async #connectAnew(): Promise<Qmp> {
    const qmp = await connectQmp(this.#folder, RECONNECT_LIMIT_MS);
    try {
      // What a connection that broke had begun.
      await endMigration(qmp);
      this.#released.signal.throwIfAborted();
    } catch (thrown) {
      qmp.close();
      throw thrown;
    }
    this.#qmp = this.#attend(qmp);
    return qmp;
  }

  async #failure(code: ErrorCode, what: string, cause: unknown): Promise<AppError> {
    if (cause instanceof AppError) return cause;
    const why = harmlessTail(cause instanceof Error ? cause.message : String(cause));
    if (await isAlive(this.record)) return new AppError(code, `Cannot ${what}: ${why}.`, { cause });
    return new AppError('vm_lost', `The VM of ${this.record.lifeId} has ended.`, { cause });
  }

  /** A VM that was let go of is not watched any more: then this never settles. */
  async #watch(): Promise<VmEnd> {
    const how = this.#launched ? await this.#launched.exited : await this.#pollForEnd();
    if (how === null || this.#released.signal.aborted) return new Promise<never>(() => {});
    this.#qmp?.close();
    const remains = await this.#tidy();
    const complaints = this.#launched?.complaints() ?? '';
    const detail = `The VMM ${how}${this.#shutdown}. ${complaints} ${remains}`.trim();
    return { cause: this.#killed ? 'killed' : 'exited', detail };
  }

  /** Takes in what the console still holds, and removes the folder of the dead process. */
  async #tidy(): Promise<string> {
    const console = this.#consoleSocket;
    if (console && !console.closed) {
      await Promise.race([new Promise((resolve) => console.once('close', resolve)), sleep(CONSOLE_END_MS)]);
    }
    console?.destroy();
    try {
      await this.#helper.clearVmm(this.record.lifeId);
      return '';
    } catch (thrown) {
      return `Its folder could not be removed: ${thrown}`;
    }
  }

  async #pollForEnd(): Promise<string | null> {
    const { signal } = this.#released;
    while (!signal.aborted) {
      // That it cannot be looked at now (no descriptor is free, say) is no end.
      if (!(await isAlive(this.record).catch(() => true))) return 'ended';
      await sleep(POLL_MS, undefined, { signal, ref: false }).catch(() => {});
    }
    return null;
  }
}

interface DiskFailure {
  readonly full: boolean;
  readonly reason: string;
}

function diskError({ full, reason }: DiskFailure): AppError {
  if (full)
    return new AppError('insufficient_space', 'The VM stands still: there is no room for what its guest writes.');
  return new AppError('vm_lost', `The VM stands still: its disk fails (${harmlessTail(reason, 100)}).`);
}

const blockStatsSchema = z.array(z.object({ stats: z.object({ wr_bytes: z.number().nonnegative() }) }));
const statusSchema = z.object({ status: z.string().max(50), running: z.boolean() });

export async function queryStatus(qmp: Qmp): Promise<{ readonly status: string; readonly running: boolean }> {
  return statusSchema.parse(await qmp.execute('query-status'));
}
