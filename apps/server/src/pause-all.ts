/** Pauses what runs, in every project, so that the machine can be left: nothing of it is lost. */
import type { Control, Records } from '@space/control';
import { asAppError, hasVm } from '@space/core';

export interface PausedAll {
  readonly paused: readonly string[];
  /** Those that could not be paused, and why. */
  readonly failed: readonly { readonly id: string; readonly reason: string }[];
}

export async function pauseAll(control: Control, records: Records): Promise<PausedAll> {
  const paused: string[] = [];
  const failed: { id: string; reason: string }[] = [];
  for (const { id, settled } of await records.allSandboxes()) {
    if (!hasVm(settled)) continue;
    try {
      await control.pauseUnasked(id);
      paused.push(id);
    } catch (error) {
      failed.push({ id, reason: asAppError(error).message });
    }
  }
  return { paused, failed };
}
