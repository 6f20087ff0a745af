/** Builds of the VMM that nothing has needed for long are removed, by root, once a node has said what it needs. */
import { dropUnneeded } from '@space/runtime-qemu/kept-builds';
import type { Config } from './config.ts';
import { buildsFolderOf } from './places.ts';

/** Never rejects: one that cannot be removed is met again at the next start. */
export async function dropBuilds(
  config: Pick<Config, 'dataDir'>,
  needed: readonly string[],
  onWarning: (message: string) => void,
): Promise<void> {
  try {
    const failed = await dropUnneeded(buildsFolderOf(config), new Set(needed));
    for (const one of failed) onWarning(`A build of the VMM could not be looked at or removed: ${one}`);
  } catch (thrown) {
    onWarning(`The kept builds of the VMM could not be looked at: ${thrown}`);
  }
}
