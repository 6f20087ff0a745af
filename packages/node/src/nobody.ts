/** Machines that nobody owns yet: what is run in them, and under which name. */
import { AppError, type Chance, type Guest, newId, type ProcessEvent, type SandboxId } from '@space/core';
import { execute } from './execute.ts';

/** For one that takes a second on a quiet machine. */
const COMMAND_LIMIT_MS = 120_000;

/** A name that is replaced by each copy's own before its first user instruction. */
export function nobody(chance: Chance): SandboxId {
  return newId('sandbox', chance);
}

/** Runs commands of a shell, one after the other. Throws `boot_failed` when one fails or lasts too long, and what the signal says. */
export async function runInTurn(
  guest: Guest,
  commands: readonly string[],
  { chance, signal }: { readonly chance: Chance; readonly signal?: AbortSignal },
): Promise<void> {
  for (const command of commands) {
    signal?.throwIfAborted();
    const argv = ['/bin/bash', '-lc', command];
    const order = { processId: newId('process', chance), argv, env: {}, timeoutMs: COMMAND_LIMIT_MS };
    const last = await lastOf(execute(guest, order, signal));
    if (last?.kind !== 'exited' || !('code' in last.exit) || last.exit.code !== 0) {
      throw new AppError('boot_failed', `A command that is to warm a machine up failed: ${command}`);
    }
  }
}

async function lastOf(events: AsyncIterable<ProcessEvent>): Promise<ProcessEvent | undefined> {
  let last: ProcessEvent | undefined;
  for await (const event of events) last = event;
  return last;
}
