/** Records as the contract shows them. */
import type {
  ApiKey,
  ApprovalDetail,
  ApprovalList,
  AuditList,
  EgressList,
  Operation,
  Organisation,
  PlatformEvent,
  Project,
  Sandbox,
  Schedule,
  Snapshot,
} from '@space/contract';
import { signalNameOf } from '@space/contract';
import {
  type AllowRule,
  AppError,
  ERRORS,
  type ErrorCode,
  type NetworkPolicy,
  type PolicyChoice,
  type SnapshotId,
  statusOf,
} from '@space/core';
import type { RecordedApproval } from './approval-records.ts';
import type { RecordedAudit } from './audit-records.ts';
import { isHidden } from './contents.ts';
import type { RecordedEgress } from './egress-records.ts';
import type { RecordedEvent } from './event-records.ts';
import type { Crash, Outcome, PauseFailure, RecordedOperation, RecordedSandbox, RecordedSnapshot } from './records.ts';
import type { RecordedRun, RecordedSchedule } from './schedule-records.ts';
import type { RecordedApiKey, RecordedOrganisation, RecordedProject } from './tenant-records.ts';

/** A point to go on from, and since when what was done is not in it. */
interface Recovery {
  readonly id: SnapshotId;
  readonly since: Date;
}

/** `recovery`: what one that crashed goes on from; null: its disk. */
export function viewSandbox(sandbox: RecordedSandbox, recovery: Recovery | null = null): Sandbox {
  const status = statusOf(sandbox);
  if (status === 'deleted') throw new AppError('not_found', `There is no sandbox "${sandbox.id}".`);
  const { id, name, template, size, generation, head, forkedFrom, metadata, crash } = sandbox;
  const { runs, startedAt, publicPorts } = sandbox;
  const { pauseAfterMs, wakeAt, expiry, snapshotPolicy, network, secrets, pauseFailure, moved, archiving } = sandbox;
  return {
    id,
    name,
    status,
    template: sandbox.builtFrom?.template ?? template,
    size,
    generation,
    head,
    forkedFrom,
    ...(isHidden(metadata) ? { metadata: {}, hidden: true as const } : { metadata }),
    idle: { pauseAfterMs },
    wakeAt: wakeAt?.toISOString() ?? null,
    expiry: expiry === null ? null : { at: expiry.at.toISOString(), action: expiry.action },
    runs,
    startedAt: startedAt?.toISOString() ?? null,
    publicPorts,
    snapshots: viewPolicyChoice(snapshotPolicy),
    network: viewNetwork(network),
    secrets: secrets.map(({ binding }) => binding),
    missingSecrets: sandbox.missingSecrets.map(({ binding }) => binding),
    createdAt: sandbox.createdAt.toISOString(),
    updatedAt: sandbox.updatedAt.toISOString(),
    crash: crash === null || status !== 'crashed' ? null : viewCrash(crash, recovery),
    pauseFailure: pauseFailure === null ? null : viewPauseFailure(pauseFailure),
    moved: status === 'moved' ? moved : null,
    archiving: viewArchiving(archiving),
  };
}

function viewCrash({ detail, at }: Crash, recovery: Recovery | null): Sandbox['crash'] {
  const shown = { detail, at: at.toISOString() };
  if (recovery === null) return { ...shown, resumesFrom: null, lost: null };
  // A clock that was set back between the two would make it negative.
  const seconds = Math.max(0, (at.getTime() - recovery.since.getTime()) / 1000);
  return { ...shown, resumesFrom: recovery.id, lost: { from: recovery.since.toISOString(), to: shown.at, seconds } };
}

function viewPauseFailure({ code, detail, attempts, since }: PauseFailure): Sandbox['pauseFailure'] {
  return { code, detail, nextStep: ERRORS[code].nextStep, attempts, since: since.toISOString() };
}

export function viewSnapshot(snapshot: RecordedSnapshot): Snapshot {
  const {
    projectId: _,
    size: __,
    vault: ___,
    timeMs: ____,
    sealedNote,
    state,
    takenAt,
    checkedAt,
    ...shown
  } = snapshot;
  if (state === 'taking') throw new AppError('not_found', `There is no snapshot "${snapshot.id}".`);
  const hidden = sealedNote !== undefined && shown.note === null ? { hidden: true as const } : {};
  return { ...shown, ...hidden, state, takenAt: takenAt.toISOString(), checkedAt: checkedAt?.toISOString() ?? null };
}

function viewArchiving(archiving: RecordedSandbox['archiving']): Sandbox['archiving'] {
  if (archiving === null) return null;
  const { last, triedAt, failure } = archiving;
  return { last, triedAt, failure: viewFailure(failure?.code ?? null) };
}

function viewPolicyChoice({ everyMs, budgetMs, retention, archive }: PolicyChoice): Sandbox['snapshots'] {
  return {
    everyMs: everyMs ?? null,
    budgetMs: budgetMs ?? null,
    retention: retention ? [...retention] : null,
    archive: archive ?? null,
  };
}

function viewRule<Rule extends Pick<AllowRule, 'ports' | 'tools' | 'reads'>>({ ports, tools, reads, ...rule }: Rule) {
  return {
    ...rule,
    ports: ports === 'all' ? ports : [...ports],
    ...(tools === undefined ? {} : { tools: [...tools] }),
    ...(reads === undefined ? {} : { reads: [...reads] }),
  };
}

export function viewNetwork({ preset, allow, ask, deny }: NetworkPolicy): Sandbox['network'] {
  return {
    preset,
    allow: allow.map(viewRule),
    ask: ask.map(viewRule),
    deny: deny.map((rule) => (typeof rule === 'string' ? rule : { ...rule, tools: [...rule.tools] })),
  };
}

export function viewEgress(recorded: RecordedEgress): EgressList['records'][number] {
  const { id: _, sandboxId: __, at, ...shown } = recorded;
  // Records of earlier gateways know nothing of it.
  return {
    ...shown,
    calls: shown.calls ?? null,
    secret: shown.secret ?? null,
    approval: shown.approval ?? null,
    at: at.toISOString(),
  };
}

export function viewApproval(recorded: RecordedApproval): ApprovalList['approvals'][number] {
  const { id, sandboxId: sandbox, generation, state, rule, decidedBy, reason, snapshot } = recorded;
  const { method, scheme, host, port, url } = recorded.request;
  const textOf = (at: Date | null) => at?.toISOString() ?? null;
  return {
    id,
    sandbox,
    generation,
    state,
    rule,
    request: { method, scheme, host, port, url },
    requestedAt: recorded.requestedAt.toISOString(),
    expiresAt: recorded.expiresAt.toISOString(),
    decidedAt: textOf(recorded.decidedAt),
    decidedBy,
    reason,
    endedAt: textOf(recorded.endedAt),
    snapshot,
  };
}

export function viewApprovalDetail(recorded: RecordedApproval): ApprovalDetail {
  const { headers, moreHeaders, body, added = null } = recorded.request;
  const shown = { ...body, readAs: [...(body.readAs ?? [])] };
  return { ...viewApproval(recorded), headers: [...headers], moreHeaders, body: shown, added };
}

export function viewOrganisation({ id, name, limits, operator, createdAt }: RecordedOrganisation): Organisation {
  return { id, name, limits, operator, createdAt: createdAt.toISOString() };
}

export function viewProject({ id, name, snapshotPolicy, createdAt }: RecordedProject): Project {
  return { id, name, createdAt: createdAt.toISOString(), snapshots: viewPolicyChoice(snapshotPolicy) };
}

export function viewApiKey({ id, name, prefix, roles, projectId, createdAt, revokedAt }: RecordedApiKey): ApiKey {
  return {
    id,
    name,
    prefix,
    roles: [...roles],
    project: projectId,
    createdAt: createdAt.toISOString(),
    revokedAt: revokedAt?.toISOString() ?? null,
  };
}

const STATES = {
  ok: 'succeeded',
  failed: 'failed',
  superseded: 'superseded',
  interrupted: 'interrupted',
} as const satisfies Record<Outcome, Operation['state']>;

export function viewOperation(recorded: RecordedOperation): Operation {
  const { id, kind, sandboxId, by, outcome, errorCode, startedAt, endedAt, timings } = recorded;
  return {
    id,
    kind,
    sandboxId,
    requestId: by?.requestId ?? null,
    cause: recorded.input.cause ?? null,
    state: outcome === null ? 'running' : STATES[outcome],
    startedAt: startedAt.toISOString(),
    endedAt: endedAt?.toISOString() ?? null,
    timings,
    error: viewFailure(errorCode),
  };
}

function viewFailure(code: ErrorCode | null): Operation['error'] {
  return code === null ? null : { code, title: ERRORS[code].title, retry: ERRORS[code].retry };
}

export function viewAudit(recorded: RecordedAudit): AuditList['records'][number] {
  const { auditId, apiKeyId, projectId, operationId, action, call, target, outcome, requestId, at } = recorded;
  return {
    id: auditId,
    at: at.toISOString(),
    apiKey: apiKeyId,
    project: projectId,
    action,
    call,
    target,
    operation: operationId,
    outcome,
    requestId,
  };
}

export function viewEvent(recorded: RecordedEvent): PlatformEvent {
  const { cursor, kind, at, sandboxId, snapshotId, apiKeyId, shareId, approvalId, operationId } = recorded;
  const { operation, outcome, errorCode } = recorded;
  return {
    type: 'event',
    cursor,
    kind,
    at: at.toISOString(),
    ...(sandboxId === null ? {} : { sandboxId }),
    ...(snapshotId === null ? {} : { snapshotId }),
    ...(apiKeyId === null ? {} : { apiKeyId }),
    ...(shareId === null ? {} : { shareId }),
    ...(approvalId === null ? {} : { approvalId }),
    ...(operationId === null ? {} : { operationId }),
    ...(operation === null ? {} : { operation }),
    ...(outcome === null ? {} : { state: STATES[outcome] }),
    ...(errorCode === null ? {} : { code: errorCode }),
  };
}

/** With its own of the runs. */
export function viewSchedule(schedule: RecordedSchedule, runs: readonly RecordedRun[]): Schedule {
  const { id, sandboxId, cron, timeZone, exec, catchUp, enabled, nextRunAt, createdAt, updatedAt } = schedule;
  return {
    id,
    sandboxId,
    cron,
    timeZone,
    exec: exec as Schedule['exec'],
    catchUp,
    enabled,
    nextRunAt: nextRunAt?.toISOString() ?? null,
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
    lastRuns: runs.filter(({ scheduleId }) => scheduleId === id).map(viewRun),
  };
}

function viewRun(run: RecordedRun): Schedule['lastRuns'][number] {
  const { id, dueAt, startedAt, endedAt, outcome, processId, end, errorCode } = run;
  return {
    id,
    dueAt: dueAt.toISOString(),
    startedAt: startedAt?.toISOString() ?? null,
    endedAt: endedAt?.toISOString() ?? null,
    state: outcome ?? 'running',
    processId,
    exitCode: end !== null && 'code' in end.exit ? end.exit.code : null,
    signal: end !== null && 'signal' in end.exit ? signalNameOf(end.exit.signal) : null,
    timedOut: end?.timedOut ?? false,
    oom: end?.oom ?? false,
    error: viewFailure(errorCode),
  };
}
