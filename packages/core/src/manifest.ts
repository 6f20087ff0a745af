/**
 * What lies in a vault beside the bytes: the manifest of each point and the record of each sandbox. A node can rebuild its
 * whole view from these; a database is only an index over them.
 */
import type { LifeId, SandboxId, SnapshotId } from './ids.ts';
import type { Size } from './size.ts';

export const MANIFEST_FORMAT = 1;

/** What a machine must offer for a memory snapshot to run on it. Compared field by field before a restore. */
export interface MachineFacts {
  readonly runtime: string;
  /** Content digest of the VMM with its libraries and firmware. */
  readonly vmmBuild: string;
  /** Machine type with the properties that shape device state. */
  readonly machine: string;
  readonly cpuModel: string;
  /** `tcg` or `kvm`. */
  readonly accelerator: string;
  readonly kernelDigest: string;
  readonly initramfsDigest: string;
}

/**
 * What a point holds. `memory`: disk, memory and device state of one instant; programs run on from it. `disk`: the disk alone, as
 * a power cut would leave it; what starts from it boots.
 */
export type SnapshotKind = 'memory' | 'disk';

/** One immutable point. Lies in the point's own subvolume. */
export interface PointManifest {
  readonly format: typeof MANIFEST_FORMAT;
  readonly snapshotId: SnapshotId;
  /** Whose point it is: a sandbox's, or a template's ready snapshot. */
  readonly owner:
    | { readonly kind: 'sandbox'; readonly sandboxId: SandboxId; readonly lifeId: LifeId; readonly generation: number }
    | { readonly kind: 'ready'; readonly template: string; readonly imageDigest: string };
  /** The point that this life started from. */
  readonly parent: SnapshotId | null;
  readonly size: Size;
  readonly machine: MachineFacts;
  /** SHA-256 of the device state, hex, and its length. Null: it is of kind `disk`. */
  readonly deviceState: { readonly sha256: string; readonly sizeBytes: number } | null;
  /** Whether user processes were frozen, as they are wherever memory is kept. */
  readonly frozen: boolean;
  /** ISO 8601, of the instant that it holds. */
  readonly takenAt: string;
}

export function kindOf({ deviceState }: Pick<PointManifest, 'deviceState'>): SnapshotKind {
  return deviceState === null ? 'disk' : 'memory';
}

/** A sandbox as its node knows it; rewritten atomically before each effect on it. */
export interface SandboxRecord {
  readonly format: typeof MANIFEST_FORMAT;
  readonly sandboxId: SandboxId;
  /** The highest epoch that was accepted; lower ones are refused. */
  readonly epoch: number;
  readonly generation: number;
  readonly size: Size;
  readonly template: string;
  /** The point that the present life started from, or, while paused, the point to resume from. */
  readonly head: SnapshotId;
  /** The present life, or null while paused. */
  readonly life: LifeId | null;
  /** It was handed over by this archive, and is not started here. */
  readonly moved?: MovedTo;
}

/** The archive by which a sandbox left, and the place that it lies in. */
export interface MovedTo {
  readonly location: string;
  readonly archive: string;
}
