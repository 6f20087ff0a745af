/** A project's sandboxes in the order in which they began to run, by what is said of them: for faces that list so. */
import type { Caller, Sandbox } from '@space/contract';
import { AppError, authorise, type SandboxStatus } from '@space/core';
import type { RunsPage } from './face-records.ts';
import type { Records } from './records.ts';
import { showSandbox } from './recovery.ts';

export interface RunsListAsked extends Omit<RunsPage, 'projectId'> {
  /** Of which statuses all are counted, by the same filters. */
  readonly counted: readonly SandboxStatus[];
}

export interface RunsList {
  readonly sandboxes: readonly Sandbox[];
  readonly count: number;
}

/** Throws `forbidden`. */
export async function listRuns(
  records: Records,
  { principal, projectId }: Pick<Caller, 'principal' | 'projectId'>,
  { counted, ...page }: RunsListAsked,
): Promise<RunsList> {
  const resource = { kind: 'project', organisationId: principal.organisationId, projectId } as const;
  if (!authorise(principal, 'sandbox.read', resource).allowed) {
    throw new AppError('forbidden', 'The key may not see sandboxes here.');
  }
  const [found, count] = await Promise.all([
    records.faces.listByRun({ ...page, projectId }),
    records.faces.countByRun({ ...page, projectId, statuses: counted }),
  ]);
  return { sandboxes: await Promise.all(found.map((one) => showSandbox(records, one))), count };
}
