/** Machines that nobody owns yet: what is run in them, and under which name. */
import { AppError, type Chance, type Guest, newId, type ProcessEvent, type SandboxId } from '@space/core';

/** A name that is replaced by each copy's own before its first user instruction. */
export function nobody(chance: Chance): SandboxId {
  return newId('sandbox', chance);
}

/** Runs commands of a shell, one after the other. Throws `boot_failed` when one fails. */
export async function runInTurn(guest: Guest, commands: readonly string[], chance: Chance): Promise<void> {
  for (const command of commands) {
    const argv = ['/bin/bash', '-lc', command];
    const last = await lastOf(guest.exec({ processId: newId('process', chance), argv, env: {} }));
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
