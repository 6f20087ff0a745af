/** How one snapshot goes at once: recorded first, so that none is listed whose point is not there. */
import type { ControlPorts } from './ports.ts';
import type { RecordedSnapshot } from './records.ts';
import { isShut } from './vaults.ts';

/** To be called in the sandbox's turn. A point that resists is nobody's by then, and the collector removes it later. */
export async function removePoint(
  { records, node, clock, logger }: ControlPorts,
  { id, vault }: Pick<RecordedSnapshot, 'id' | 'vault'>,
): Promise<void> {
  await records.history.doom([id], new Date(clock.now()));
  try {
    await node.deletePoint(vault, id);
    await records.history.removed(id);
  } catch (err) {
    if (!isShut(err)) logger.warn({ snapshotId: id, err }, 'a point is left to be removed');
  }
}
