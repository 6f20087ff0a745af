/**
 * The part of the records that faces for other clients' programs ask of: who may come into a sandbox by its token, in one statement,
 * since each request does; and lists in the order in which sandboxes began to run.
 */
import type { OrganisationId, ProjectId, SandboxId, SandboxStatus, SnapshotKind } from '@space/core';
import type { RecordedSandbox } from './records.ts';
import type { KeyHolder, RecordedApiKey } from './tenant-records.ts';

/** Of a key that works: what its authority is. */
export interface ReachHolder extends Pick<KeyHolder, 'operator'> {
  readonly key: Pick<RecordedApiKey, 'id' | 'organisationId' | 'projectId' | 'roles'>;
}

export interface RecordedReach {
  /** Also a tombstone. */
  readonly sandbox: RecordedSandbox;
  /** Of the key that its token acts for; null: there is no token, or the key is revoked. */
  readonly holder: ReachHolder | null;
  /** Of the point that it is paused at, or has run from. */
  readonly headKind: SnapshotKind | null;
  /** Which has the sandbox's project. */
  readonly organisationId: OrganisationId | null;
}

/** All that is said has to be so. */
export interface RunsAsked {
  readonly projectId: ProjectId;
  readonly statuses: readonly SandboxStatus[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly startedFrom?: Date;
  readonly template?: string;
}

export interface RunPosition {
  readonly at: Date;
  readonly id: SandboxId;
}

export interface RunsPage extends RunsAsked {
  /** Of when they began; those of one instant are in the order of their ids, whichever way. */
  readonly order: 'asc' | 'desc';
  readonly limit: number;
  /** The last one of the page before. */
  readonly after?: RunPosition;
}

export interface FaceRecords {
  findReach(id: SandboxId): Promise<RecordedReach | null>;
  /** Of what is not deleted, newest sandbox first. */
  listTokens(limit: number): Promise<readonly { readonly id: SandboxId; readonly token: string }[]>;
  /** Of what is not deleted. One that never ran counts from when it was made. */
  listByRun(page: RunsPage): Promise<readonly RecordedSandbox[]>;
  countByRun(asked: RunsAsked): Promise<number>;
}

export function runBeganAt({ startedAt, createdAt }: Pick<RecordedSandbox, 'startedAt' | 'createdAt'>): Date {
  return startedAt ?? createdAt;
}
