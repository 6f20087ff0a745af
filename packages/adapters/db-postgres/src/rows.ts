/** Between rows and records. What comes out of the database was parsed when it went in. */

import type { RecordedOperation, RecordedSandbox, RecordedSnapshot, SandboxChanges } from '@space/control';
import type { ApiKeyId, OperationId, SandboxId, SnapshotId, VaultName } from '@space/core';
import type { Selectable, Updateable } from 'kysely';
import type { NewSnapshotRow, OperationTable, SandboxRow, SandboxTable, SnapshotRow } from './schema.ts';

export function sandboxOf(row: SandboxRow): RecordedSandbox {
  const { forked_from_sandbox: sandboxId, forked_from_snapshot: snapshotId, crash_detail: detail, crash_at: at } = row;
  return {
    id: row.id as SandboxId,
    name: row.name,
    template: row.template,
    size: row.size,
    vault: row.vault as VaultName,
    env: row.env,
    metadata: row.metadata,
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
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

export function changesOf({ generation, head, crash }: SandboxChanges): Updateable<SandboxTable> {
  return {
    ...(generation === undefined ? {} : { generation }),
    ...(head === undefined ? {} : { head }),
    ...(crash === undefined ? {} : { crash_detail: crash?.detail ?? null, crash_at: crash?.at ?? null }),
  };
}

export function snapshotOf(row: SnapshotRow): RecordedSnapshot {
  return {
    id: row.id as SnapshotId,
    sandboxId: row.sandbox_id as SandboxId,
    name: row.name,
    note: row.note,
    cause: row.cause,
    parent: row.parent as SnapshotId | null,
    generation: row.generation,
    template: row.template,
    size: row.size,
    vault: row.vault as VaultName,
    state: row.state,
    badReason: row.bad_reason,
    takenAt: row.taken_at,
    timings: row.timings,
  };
}

export function rowOfSnapshot(snapshot: RecordedSnapshot): NewSnapshotRow {
  return {
    id: snapshot.id,
    sandbox_id: snapshot.sandboxId,
    name: snapshot.name,
    note: snapshot.note,
    cause: snapshot.cause,
    parent: snapshot.parent,
    generation: snapshot.generation,
    template: snapshot.template,
    size: JSON.stringify(snapshot.size),
    vault: snapshot.vault,
    state: snapshot.state,
    bad_reason: snapshot.badReason,
    taken_at: snapshot.takenAt,
    timings: snapshot.timings === null ? null : JSON.stringify(snapshot.timings),
  };
}

export function operationOf(row: Selectable<OperationTable>): RecordedOperation {
  return {
    id: row.id as OperationId,
    sandboxId: row.sandbox_id as SandboxId,
    kind: row.kind,
    epoch: row.epoch,
    input: row.input,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    outcome: row.outcome,
    errorCode: row.error_code,
  };
}

export function apiKeyIdOf(id: string): ApiKeyId {
  return id as ApiKeyId;
}
