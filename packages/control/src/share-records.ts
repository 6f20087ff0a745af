/**
 * The part of the records that says who may reach a port without a key. One that is revoked is gone, and all go with their
 * sandbox; one that has expired is there until it is tidied away.
 */
import type { ApiKeyId, ProjectId, SandboxId, ShareId } from '@space/core';

export interface RecordedShare {
  readonly id: ShareId;
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly port: number;
  readonly name: string | null;
  /** Of its token. */
  readonly sha256: Uint8Array;
  readonly createdBy: ApiKeyId;
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

export interface ShareRecords {
  /** Throws `not_found` when the sandbox is deleted, and `limit_reached` when it has `max` that have not expired. */
  add(share: RecordedShare, max: number): Promise<void>;
  /** Those that have not expired, oldest first. */
  list(sandboxId: SandboxId, now: Date): Promise<readonly RecordedShare[]>;
  findByDigest(sha256: Uint8Array): Promise<RecordedShare | null>;
  /** False: there is none. */
  remove(sandboxId: SandboxId, id: ShareId, at: Date): Promise<boolean>;
  /** Those that are gone or have expired. */
  endedAmong(ids: readonly ShareId[], now: Date): Promise<readonly ShareId[]>;
  dropExpired(now: Date): Promise<void>;
}
