/**
 * The runtime port: what runs one microVM. Adapters: QEMU, and the fakes of testkit; all pass the same suite.
 *
 * Two kinds of memory exist. `in_place`: the VM's RAM *is* the memory file, so a snapshot of the file system holds it.
 * `written`: the VMM holds RAM privately and writes it into the memory file at a checkpoint. The order of a snapshot
 * (flush, freeze, stop, checkpoint, capture, run) is the same for both.
 */
import type { Duplex } from 'node:stream';
import type { LifeId, VaultName } from '../ids.ts';
import type { MachineFacts } from '../manifest.ts';
import type { Size } from '../size.ts';

export interface Runtime {
  readonly memory: 'in_place' | 'written';
  /** Of the VMs that it boots. */
  readonly machine: MachineFacts;
  /** Whose checkpoints it restores: that one first, then those of earlier builds that are kept. */
  readonly machines: readonly MachineFacts[];
  /** Starts a VM from its disk, vCPUs running. The memory file must exist, with the size's length. */
  boot(spec: VmSpec, signal?: AbortSignal): Promise<Vm>;
  /** Starts a VM from a checkpoint, vCPUs *stopped*, memory as the files hold it. Throws `restore_failed`. */
  restore(spec: VmSpec, deviceState: Uint8Array, options?: RestoreOptions): Promise<Vm>;
  /** The VMs that an earlier process started and did not end, alive or not: what it recorded before starting them. */
  survivors(): Promise<readonly VmRecord[]>;
  /**
   * Takes over a survivor, in whatever state, also one that does not answer now; null when it is no longer alive (proved by pid and start time), and then
   * what it left behind is removed.
   */
  adopt(record: VmRecord): Promise<Vm | null>;
  /** Ends what the runtime holds ready (spare processes). VMs are not touched. */
  close(): Promise<void>;
}

export interface RestoreOptions {
  /** Of the VM that was checkpointed; one of `machines`. Left out: the first of them. */
  readonly machine?: MachineFacts;
  readonly signal?: AbortSignal;
}

export interface VmSpec {
  readonly lifeId: LifeId;
  readonly size: Size;
  /** In which its files lie. */
  readonly vault: VaultName;
  /** Absolute paths, owned by this life alone. */
  readonly files: { readonly disk: string; readonly memory: string };
}

/** All that is needed to find a VM again; plain JSON, kept by the node. */
export interface VmRecord {
  readonly lifeId: LifeId;
  readonly pid: number;
  /** Clock ticks since boot (field 22 of /proc/pid/stat): with the pid, the identity of the process. */
  readonly startTime: string;
  /** Folder of its sockets. */
  readonly runDir: string;
}

export type GuestPort = 'control' | 'traffic';

export interface VmEnd {
  /** `killed`: by us. `exited`: by itself or by somebody else. */
  readonly cause: 'killed' | 'exited';
  readonly detail: string;
}

export interface VmUsage {
  /** Processor time that the VMM has taken since its start, its own work for the guest included. */
  readonly cpuMs: number;
  /** Memory of the guest that lies in the host's. A page that several VMs share counts in each; the VMM's own code counts too. */
  readonly memoryBytes: number;
}

export interface Vm {
  readonly record: VmRecord;
  /** What its checkpoints need to run again. */
  readonly machine: MachineFacts;
  /** Whether it stands still by itself: a write to its disk found no room, and waits for `run` to be tried again. */
  readonly starved: boolean;
  /** Settles once, when the process is proved dead. Never rejects. */
  readonly ended: Promise<VmEnd>;
  run(): Promise<void>;
  stop(): Promise<void>;
  /** The device state of the stopped VM (and, with `written` memory, the memory file). The VM can go on after it. */
  checkpoint(): Promise<Uint8Array>;
  /** A fresh connection to a port of the guest agent; one at a time per port. Bytes of an earlier one may come first. */
  connect(port: GuestPort): Promise<Duplex>;
  /** The last bytes that the guest wrote to its console; hostile text. At most 64 KiB. */
  console(): string;
  /** As the host sees it; the guest notices nothing. Throws `vm_lost`. */
  usage(): Promise<VmUsage>;
  /** Written to its disk since its start; what it wrote again counts again. Asked of the VMM, which takes from its time. */
  diskWrittenBytes(): Promise<number>;
  /** Kills the process; returns when it is proved dead. Idempotent. */
  kill(): Promise<void>;
  /** Lets go of the VM without harming it, so that another process can adopt it. */
  release(): Promise<void>;
}
