/**
 * The vault port: durable copy-on-write storage of one vault. Adapters: Btrfs, and the fake of testkit.
 *
 * - an **image** is a template's root disk, imported once, immutable;
 * - a **life** is the writable disk and memory of one running VM; its folder is made by `createLife` and exists once, so
 *   no two VMs ever open the same writable file;
 * - a **point** is an immutable snapshot of a life with its device state and manifest. One that holds memory is made by `seal`,
 *   while the VM stands still. One of the disk alone, and one that comes from elsewhere, is *staged* first (`capture`, `receive`) and
 *   becomes real by `commit`. Both are atomic; what is staged and never committed is removed at the next open.
 */
import type { Changed } from '../cadence.ts';
import type { AppError } from '../errors.ts';
import type { LifeId, SandboxId, SnapshotId, VaultName } from '../ids.ts';
import type { KeyBytes } from '../keys/key-bytes.ts';
import type { PointManifest, SandboxRecord } from '../manifest.ts';
import type { Size } from '../size.ts';

/**
 * The containers of a node's vaults: made, opened, grown and removed here; what is inside is a `Vault`. One that is open stays so
 * when the process that opened it ends, however it does, since microVMs may run on it; whoever comes next takes it up.
 */
export interface VaultContainers {
  /**
   * Makes a container of this size, sparse; with a key an encrypted one, which keeps the token (its wrapped key) in its header. Does
   * nothing where it is there with that key; throws `vault_key_wrong` where it is there with another, or none. Leaves it closed.
   */
  create(vault: VaultName, wish: VaultWish): Promise<void>;
  /**
   * Opens it, or takes up one that is open, for which no key is needed. Throws `not_found`, `vault_key_wrong` (none was given for
   * one that has one, too), `vault_damaged`, `vault_busy`. Never makes a file system. Does not keep the key, and does not wipe it.
   */
  open(vault: VaultName, key: KeyBytes | null): Promise<Vault>;
  /**
   * Keeps the token in its header from now on, in place of the one that is there; open or closed, in one step. Throws `not_found`,
   * `vault_key_wrong` (it has another key, or none).
   */
  keepToken(vault: VaultName, key: KeyBytes, token: string): Promise<void>;
  /** Makes it larger, open or closed; does nothing where it is as large. */
  grow(vault: VaultName, sizeBytes: number): Promise<void>;
  /**
   * Destroys the header first (both copies and the kept backup), then gives the space back. Throws `vault_in_use` where it is open.
   * Idempotent.
   */
  remove(vault: VaultName): Promise<void>;
  /** All that this node has. */
  list(): Promise<readonly VaultContainer[]>;
}

export interface VaultWish {
  readonly sizeBytes: number;
  readonly key: KeyBytes | null;
  /** What to keep in the header beside the data; null: nothing. */
  readonly token: string | null;
}

export interface VaultContainer {
  readonly vault: VaultName;
  readonly encrypted: boolean;
  /** Mounted, by whichever process. */
  readonly open: boolean;
  /** How it is read, when it is: as it is, by the kernel's dm-crypt, or by the vault server. */
  readonly way: 'plain' | 'dm-crypt' | 'server';
}

export interface Vault {
  readonly name: VaultName;

  hasImage(digest: string): Promise<boolean>;
  /** Copies a template's disk image in. Idempotent; atomic. */
  importImage(digest: string, sourcePath: string): Promise<void>;
  images(): Promise<readonly string[]>;
  /** Idempotent. Lives and points that came from the image are not affected; none is being made of it now. */
  deleteImage(digest: string): Promise<void>;

  /** Throws `insufficient_space`, or `snapshot_bad` when the point does not exist. */
  createLife(lifeId: LifeId, from: LifeSource): Promise<LifeFiles>;
  lifeFiles(lifeId: LifeId): LifeFiles;
  /** Allocated to the life's disk; what it shares with points and other lives counts in each. */
  diskBytes(lifeId: LifeId): Promise<number>;
  /**
   * What was written out of the life since its last point, or since it was made; never too little, and too much once that
   * point is deleted. What is still dirty is not seen: `flush` first.
   */
  changed(lifeId: LifeId): Promise<Changed>;
  lives(): Promise<readonly LifeId[]>;
  /**
   * Writes dirty data and metadata out, so that a capture has little left to do. The VM may be running. `dataOnly`: the metadata is
   * left to the capture, since there is little of it, or since nobody feels how long that takes.
   */
  flush(lifeId: LifeId, how?: { readonly dataOnly?: boolean }): Promise<void>;
  /** Idempotent. The VM must be proved dead. */
  deleteLife(lifeId: LifeId): Promise<void>;
  /**
   * The life is over and ended as the point, which nothing was written after: its files may serve the next life from there, and
   * go with the point at the latest. It is no life any more; where that fails, it is one still. The VM must be proved dead.
   */
  keepLife(lifeId: LifeId, snapshotId: SnapshotId): Promise<void>;

  /** Throws `insufficient_space` unless what the running lives may still write would fit beside a point of this one. */
  requireRoom(lifeId: LifeId): Promise<void>;
  /**
   * Makes the present disk and memory of a life a point, in one step: when it returns, the point is whole and durable. When it
   * throws there may be one all the same, which `deletePoint` removes. The VM must stand still, and may go on right after.
   * `ready` is called when all is there but the point, which is made when it returns, and not when it throws.
   */
  seal(lifeId: LifeId, manifest: PointManifest, deviceState: Uint8Array, ready?: () => Promise<unknown>): Promise<void>;
  /**
   * Stages the life's present disk and memory as a point. For its memory to be kept the VM must stand still, and may go on right
   * after; its disk is of one instant also while it runs.
   */
  capture(lifeId: LifeId, snapshotId: SnapshotId): Promise<void>;
  /**
   * Completes a staged point. When it returns, the point is durable. Throws `insufficient_space` when what the running lives
   * may still write would not fit beside it. Without a device state its memory is dropped.
   */
  commit(manifest: PointManifest, deviceState: Uint8Array | null): Promise<void>;
  /** Drops a staged point. Idempotent. */
  abandon(snapshotId: SnapshotId): Promise<void>;
  points(): Promise<readonly SnapshotId[]>;
  /** What the manifest says, and no proof that the rest is there: for looking through thousands. Throws `snapshot_bad`. */
  readManifest(snapshotId: SnapshotId): Promise<PointManifest>;
  /** The manifest and device state, digests verified; throws `snapshot_bad` with the reason. */
  readPoint(snapshotId: SnapshotId): Promise<ReadPoint>;
  /**
   * Reads the point through, disk and memory too, at a pace that others do not feel (minutes); what it shares with points that
   * were read within the last hours is not read again. Throws `snapshot_bad` with the reason.
   */
  checkPoint(snapshotId: SnapshotId): Promise<void>;
  /** Idempotent. Lives that started from the point are not affected. */
  deletePoint(snapshotId: SnapshotId): Promise<void>;

  /** For reading; it must not be deleted meanwhile. Throws `snapshot_bad`. */
  openPoint(snapshotId: SnapshotId): Promise<PointContent>;
  /**
   * Stages a point that comes from elsewhere, as `capture` stages one of a life; `commit` or `abandon` follows. When `fill`
   * fails, nothing is staged. Throws `insufficient_space`.
   */
  receive(incoming: IncomingPoint, fill: (draft: PointDraft) => Promise<void>): Promise<void>;

  sandboxes(): Promise<VaultSandboxes>;
  /** Atomic and durable. */
  writeSandbox(record: SandboxRecord): Promise<void>;
  /** Idempotent. */
  deleteSandbox(sandboxId: SandboxId): Promise<void>;

  /** Cheap, and never waits for a disk: it is asked many times a second when little is left. */
  space(): Promise<VaultSpace>;
  /**
   * Lets the file system have back what was rewritten or deleted: until what is dirty is written out, memory that is rewritten takes its
   * blocks twice and more. Takes as long as the disk does.
   */
  reclaim(): Promise<void>;
  /** Unmounts, and proves that it is; every VM on the vault must have ended. When it throws, the vault is open still, and it can be tried again. */
  close(): Promise<void>;
}

export interface VaultSandboxes {
  readonly records: readonly SandboxRecord[];
  /** Whose record is there and cannot be read, and why: `record_bad`. */
  readonly damaged: readonly { readonly sandboxId: SandboxId; readonly reason: AppError }[];
}

export interface ReadPoint {
  readonly manifest: PointManifest;
  /** Null: the point is of kind `disk`. */
  readonly deviceState: Uint8Array | null;
}

export type LifeSource =
  /** Its disk and memory: for a restore. Of a point of kind `memory`. */
  | { readonly kind: 'point'; readonly snapshotId: SnapshotId }
  /** The disk of a point, and empty memory: for a boot. */
  | { readonly kind: 'disk'; readonly snapshotId: SnapshotId; readonly memoryBytes: number }
  /** The disk of an image, grown to `diskBytes`, and empty memory: for a boot. */
  | { readonly kind: 'image'; readonly digest: string; readonly diskBytes: number; readonly memoryBytes: number }
  /** The disk of another life whose VM is dead, and empty memory: for a boot after a crash. */
  | { readonly kind: 'crashed'; readonly lifeId: LifeId; readonly memoryBytes: number };

export interface LifeFiles {
  readonly disk: string;
  readonly memory: string;
}

/** The two large files of a point or life. */
export type VaultFile = 'disk' | 'memory';

/** Of one piece of a file. `same`: as in the base, known without reading. */
export const PIECE = { hole: 0, same: 1, data: 2 } as const;

/** The files of a point, open for reading; one of kind `disk` has no memory. */
export interface PointContent extends AsyncDisposable {
  /**
   * One of `PIECE` for each piece of the file, the last of which may be shorter. Without a base, or where it is gone, nothing
   * is `same`; what is said to be data may still be as it was.
   */
  survey(file: VaultFile, pieceBytes: number, base: SnapshotId | null): Promise<Uint8Array>;
  read(file: VaultFile, offset: number, length: number): Promise<Uint8Array>;
}

/** A point that comes from elsewhere, in the making. What is not written reads as in the point it is `like`, or as zeros. */
export interface PointDraft {
  write(file: VaultFile, offset: number, bytes: Uint8Array): Promise<void>;
  /** Makes it read as zeros. */
  clear(file: VaultFile, offset: number, length: number): Promise<void>;
}

export interface IncomingPoint {
  readonly snapshotId: SnapshotId;
  readonly size: Size;
  /** A point of the vault that most of it is shared with, of the same size. What that one has no memory of starts empty. */
  readonly like: SnapshotId | null;
  /** What will be written, at most. */
  readonly writtenBytes: number;
}

export interface VaultSpace {
  readonly totalBytes: number;
  /** What can still be written, data and metadata considered, and what is dirty but not written out yet. */
  readonly availableBytes: number;
}
