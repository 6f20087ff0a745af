/**
 * Has every snapshot read through once a day, so that one whose blocks have rotted is known to be bad before it is needed. One
 * that a restore finds bad is marked by the driver, by the same call. Those of a vault that is closed wait until somebody has opened it.
 */
import { AppError, type SnapshotId } from '@space/core';
import type { ControlPorts } from './ports.ts';
import type { RecordedSnapshot } from './records.ts';
import { isShut, type Vaults } from './vaults.ts';

export const SCRUB_EVERY_MS = 60_000;
const CHECK_AGAIN_MS = 24 * 60 * 60_000;
const BATCH = 20;

export class Scrubber {
  readonly #ports: ControlPorts;
  readonly #vaults: Pick<Vaults, 'opened'>;
  /** Could not be checked, and come after the others. */
  readonly #putOff = new Set<SnapshotId>();
  readonly #stop = Promise.withResolvers<'stopped'>();
  #closed = false;

  constructor(ports: ControlPorts, vaults: Pick<Vaults, 'opened'>) {
    this.#ports = ports;
    this.#vaults = vaults;
  }

  /** Until all have been checked within a day: hours, where there is much. */
  async round(): Promise<void> {
    for (;;) {
      const before = new Date(this.#ports.clock.now() - CHECK_AGAIN_MS);
      const due = await this.#ports.records.history.unchecked(
        before,
        BATCH + this.#putOff.size,
        await this.#vaults.opened(),
      );
      const next = due.filter(({ id }) => !this.#putOff.has(id));
      if (next.length === 0) return this.#putOff.clear();
      for (const snapshot of next) {
        if (this.#closed) return;
        await this.#check(snapshot);
      }
    }
  }

  /** A check that is under way is not waited for: it ends with the node's vault, and is begun again by the next process. */
  close(): void {
    this.#closed = true;
    this.#stop.resolve('stopped');
  }

  async #check({ id, vault }: RecordedSnapshot): Promise<void> {
    const { node, clock, records, logger } = this.#ports;
    try {
      const checked = node.checkPoint(vault, id);
      if ((await Promise.race([checked, this.#stop.promise])) === 'stopped') return void checked.catch(() => undefined);
    } catch (thrown) {
      if (thrown instanceof AppError && thrown.code === 'node_unavailable') throw thrown;
      if (thrown instanceof AppError && thrown.code === 'snapshot_bad') return noteDamage(this.#ports, id, thrown);
      this.#putOff.add(id);
      // It was closed meanwhile, which says nothing of the snapshot.
      if (isShut(thrown)) return;
      logger.warn({ snapshotId: id, err: thrown }, 'a snapshot could not be checked');
      return;
    }
    await records.history.checked(id, new Date(clock.now()));
  }
}

/** The node has found a point that cannot be restored: it is listed so from now on, with the reason. */
export async function noteDamage(
  { records, clock, logger }: Pick<ControlPorts, 'records' | 'clock' | 'logger'>,
  id: SnapshotId,
  damage: AppError,
): Promise<void> {
  logger.error({ snapshotId: id, err: damage }, 'a snapshot is bad');
  await records.history.spoilt(id, damage.message, new Date(clock.now()));
}
