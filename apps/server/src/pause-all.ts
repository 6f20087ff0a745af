/** Pauses what runs, in every project, so that the machine can be left: nothing of it is lost. */
import type { Caller } from '@space/contract';
import type { Control, Records } from '@space/control';
import { type ApiKeyId, asAppError, DEFAULT_ORGANISATION, type Principal, type ProjectId } from '@space/core';

export interface PausedAll {
  readonly paused: readonly string[];
  /** Those that could not be paused, and why. */
  readonly failed: readonly { readonly id: string; readonly reason: string }[];
}

/** The platform itself, as a caller. */
const PLATFORM: Principal = {
  apiKeyId: 'key_0000000000000000' as ApiKeyId,
  organisationId: DEFAULT_ORGANISATION,
  operator: true,
  onlyProject: null,
  roles: ['admin'],
};

export async function pauseAll(control: Control, records: Records): Promise<PausedAll> {
  const paused: string[] = [];
  const failed: { id: string; reason: string }[] = [];
  for (const { id, projectId, settled } of await records.allSandboxes()) {
    if (settled !== 'running') continue;
    try {
      await control.pauseSandbox(callerIn(projectId), { id });
      paused.push(id);
    } catch (error) {
      failed.push({ id, reason: asAppError(error).message });
    }
  }
  return { paused, failed };
}

function callerIn(projectId: ProjectId): Caller {
  return { principal: PLATFORM, projectId, requestId: 'shutdown', signal: new AbortController().signal };
}
