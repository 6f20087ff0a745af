/** Between rows and records. What comes out of the database was parsed when it went in. */

import type {
  RecordedApiKey,
  RecordedOperation,
  RecordedOrganisation,
  RecordedProject,
  RecordedSandbox,
  RecordedSnapshot,
  SandboxChanges,
} from '@space/control';
import type {
  ApiKeyId,
  OperationId,
  OrganisationId,
  ProcessId,
  ProjectId,
  SandboxId,
  SnapshotId,
  VaultName,
} from '@space/core';
import type { Selectable, Updateable } from 'kysely';
import { limitsOf } from './postgres-limits.ts';
import type {
  ApiKeyRow,
  NewSnapshotRow,
  OperationTable,
  OrganisationRow,
  ProjectRow,
  SandboxRow,
  SandboxTable,
  SnapshotRow,
} from './schema.ts';

export function sandboxOf(row: SandboxRow): RecordedSandbox {
  const { forked_from_sandbox: sandboxId, forked_from_snapshot: snapshotId, crash_detail: detail, crash_at: at } = row;
  const { expires_at: expiresAt, expiry_action: action } = row;
  return {
    id: row.id as SandboxId,
    projectId: row.project_id as ProjectId,
    name: row.name,
    template: row.template,
    size: row.size,
    vault: row.vault as VaultName,
    env: row.env,
    metadata: row.metadata,
    sealed: row.content === null ? null : Uint8Array.from(row.content),
    pauseAfterMs: row.pause_after_ms,
    wakeAt: row.wake_at,
    expiry: expiresAt === null || action === null ? null : { at: expiresAt, action },
    runs: row.runs,
    startedAt: row.started_at,
    publicPorts: row.public_ports,
    builtFrom: row.built_from,
    access: row.access,
    keepers: row.keepers as ProcessId[],
    snapshotPolicy: row.snapshot_policy,
    network: row.network,
    secrets: row.secrets,
    missingSecrets: row.missing_secrets,
    settled: row.settled,
    operation: row.operation,
    operationId: row.operation_id as OperationId | null,
    epoch: row.epoch,
    generation: row.generation,
    head: row.head as SnapshotId | null,
    forkedFrom:
      sandboxId === null || snapshotId === null
        ? null
        : { sandboxId: sandboxId as SandboxId, snapshotId: snapshotId as SnapshotId },
    origin: row.origin as SnapshotId | null,
    crash: detail === null || at === null ? null : { detail, at },
    pauseFailure:
      row.pause_failure === null ? null : { ...row.pause_failure, since: new Date(row.pause_failure.since) },
    moved: row.moved,
    moves: row.moves,
    archiving: row.archiving,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

export function changesOf({ generation, head, crash, moved, moves }: SandboxChanges): Updateable<SandboxTable> {
  return {
    ...(generation === undefined ? {} : { generation }),
    ...(head === undefined ? {} : { head }),
    ...(crash === undefined ? {} : { crash_detail: crash?.detail ?? null, crash_at: crash?.at ?? null }),
    ...(moved === undefined ? {} : { moved: moved === null ? null : JSON.stringify(moved) }),
    ...(moves === undefined ? {} : { moves }),
  };
}

export function snapshotOf(row: SnapshotRow): RecordedSnapshot {
  return {
    id: row.id as SnapshotId,
    sandboxId: row.sandbox_id as SandboxId,
    projectId: row.project_id as ProjectId,
    name: row.name,
    note: row.note,
    cause: row.cause,
    kind: row.kind,
    degraded: row.degraded,
    pinned: row.pinned,
    timeMs: row.time_ms,
    parent: row.parent as SnapshotId | null,
    generation: row.generation,
    template: row.template,
    size: row.size,
    vault: row.vault as VaultName,
    state: row.state,
    badReason: row.bad_reason,
    checkedAt: row.checked_at,
    takenAt: row.taken_at,
    timings: row.timings,
    changed: row.changed,
  };
}

export function rowOfSnapshot(snapshot: RecordedSnapshot): NewSnapshotRow {
  return {
    id: snapshot.id,
    sandbox_id: snapshot.sandboxId,
    project_id: snapshot.projectId,
    name: snapshot.name,
    note: snapshot.note,
    cause: snapshot.cause,
    kind: snapshot.kind,
    degraded: snapshot.degraded,
    pinned: snapshot.pinned,
    time_ms: snapshot.timeMs,
    parent: snapshot.parent,
    generation: snapshot.generation,
    template: snapshot.template,
    size: JSON.stringify(snapshot.size),
    vault: snapshot.vault,
    state: snapshot.state,
    bad_reason: snapshot.badReason,
    checked_at: snapshot.checkedAt,
    taken_at: snapshot.takenAt,
    timings: snapshot.timings === null ? null : JSON.stringify(snapshot.timings),
    changed: snapshot.changed === null ? null : JSON.stringify(snapshot.changed),
  };
}

export function operationOf(row: Selectable<OperationTable>): RecordedOperation {
  return {
    id: row.id as OperationId,
    projectId: row.project_id as ProjectId,
    sandboxId: row.sandbox_id as SandboxId,
    kind: row.kind,
    epoch: row.epoch,
    input: row.input,
    by: byOf(row),
    startedAt: row.started_at,
    endedAt: row.ended_at,
    outcome: row.outcome,
    errorCode: row.error_code,
    timings: row.timings,
  };
}

function byOf({ request_id: requestId, api_key_id: apiKeyId }: Selectable<OperationTable>): RecordedOperation['by'] {
  return requestId === null || apiKeyId === null ? null : { requestId, apiKeyId: apiKeyId as ApiKeyId };
}

export function rowOfBy(by: RecordedOperation['by']) {
  return { request_id: by?.requestId ?? null, api_key_id: by?.apiKeyId ?? null };
}

export function organisationOf(row: OrganisationRow): RecordedOrganisation {
  const { id, name, operator, network, created_at: createdAt } = row;
  return { id: id as OrganisationId, name, operator, limits: limitsOf(row), network, createdAt };
}

export function projectOf(row: ProjectRow): RecordedProject {
  return {
    id: row.id as ProjectId,
    organisationId: row.organisation_id as OrganisationId,
    name: row.name,
    snapshotPolicy: row.snapshot_policy,
    createdAt: row.created_at,
  };
}

export function rowOfProject({ id, organisationId, name, snapshotPolicy, createdAt }: RecordedProject) {
  const snapshot_policy = JSON.stringify(snapshotPolicy);
  return { id, organisation_id: organisationId, name, snapshot_policy, created_at: createdAt };
}

export function apiKeyOf(row: ApiKeyRow): RecordedApiKey {
  return {
    id: row.id as ApiKeyId,
    organisationId: row.organisation_id as OrganisationId,
    projectId: row.project_id as ProjectId | null,
    name: row.name,
    roles: row.roles,
    prefix: row.prefix,
    sha256: row.sha256,
    createdAt: row.created_at,
    revokedAt: row.revoked_at,
  };
}

export function rowOfApiKey(key: RecordedApiKey) {
  return {
    id: key.id,
    organisation_id: key.organisationId,
    project_id: key.projectId,
    name: key.name,
    roles: [...key.roles],
    prefix: key.prefix,
    sha256: Buffer.from(key.sha256),
    created_at: key.createdAt,
    revoked_at: key.revokedAt,
  };
}
