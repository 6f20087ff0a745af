/** A guest's own file systems write to its disk what programs have written to files: what is to last there is on it then. */
import { AppError, type Chance, type Guest, newId } from '@space/core';
import { execute } from './execute.ts';

/** For a guest with gigabytes of them, on a slow disk. */
const LIMIT_MS = 60_000;

/** Throws `snapshot_failed`. What a hostile guest makes of it is its own loss. */
export async function writeOut(guest: Pick<Guest, 'exec'>, chance: Chance): Promise<void> {
  const order = {
    processId: newId('process', chance),
    argv: ['/bin/sync'],
    env: {},
    user: 'root',
    timeoutMs: LIMIT_MS,
  };
  for await (const event of execute(guest, order)) {
    if (event.kind === 'exited' && 'code' in event.exit && event.exit.code === 0) return;
  }
  throw new AppError('snapshot_failed', 'The guest did not write its files out.');
}
