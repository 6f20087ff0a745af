/** Pauses what runs, so that the machine can be left: nothing of it is lost. */
import type { Caller, Sandbox, SandboxList } from '@space/contract';
import type { Control } from '@space/control';
import { type ApiKeyId, asAppError } from '@space/core';

export interface PausedAll {
  readonly paused: readonly string[];
  /** Those that could not be paused, and why. */
  readonly failed: readonly { readonly id: string; readonly reason: string }[];
}

/** The platform itself, as a caller. */
const PLATFORM = 'key_0000000000000000' as ApiKeyId;

export async function pauseAll(control: Control): Promise<PausedAll> {
  const paused: string[] = [];
  const failed: { id: string; reason: string }[] = [];
  const caller: Caller = { apiKeyId: PLATFORM, requestId: 'shutdown', signal: new AbortController().signal };
  for (const { id } of await running(control, caller)) {
    try {
      await control.pauseSandbox(caller, { id });
      paused.push(id);
    } catch (error) {
      failed.push({ id, reason: asAppError(error).message });
    }
  }
  return { paused, failed };
}

async function running(control: Control, caller: Caller): Promise<readonly Sandbox[]> {
  const found: Sandbox[] = [];
  let cursor: string | null = null;
  do {
    const page: SandboxList = await control.listSandboxes(caller, {
      limit: 100,
      status: 'running',
      ...(cursor === null ? {} : { cursor }),
    });
    found.push(...page.sandboxes);
    cursor = page.nextCursor;
  } while (cursor !== null);
  return found;
}
