/**
 * Empties projects that were deleted: their sandboxes, then the named snapshots that these leave. The records say first that
 * a project is deleted, and from then on nobody reaches it; so what a process that died has left, the next round takes up.
 */
import type { ProjectId } from '@space/core';
import type { Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSnapshot } from './records.ts';
import { removePoint } from './remove-point.ts';
import { mapInParallel } from './turns.ts';

const PARALLEL_DELETES = 4;
const PIECE = 100;

export class ProjectPurge {
  readonly #machinery: Machinery;
  /** A round that is not over yet is this round. */
  #round: Promise<void> | null = null;

  constructor(machinery: Machinery) {
    this.#machinery = machinery;
  }

  /** All deleted projects that hold something. What cannot be removed now is logged, and left to the next round. */
  round(): Promise<void> {
    this.#round ??= this.#purgeAll().finally(() => {
      this.#round = null;
    });
    return this.#round;
  }

  async #purgeAll(): Promise<void> {
    const { records, logger } = this.#machinery.ports;
    for (const projectId of await records.tenants.projectsToPurge()) {
      await this.purge(projectId).catch((err: unknown) =>
        logger.warn({ projectId, err }, 'a deleted project is not empty yet'),
      );
    }
  }

  /** Throws the first failure, after all have been tried. */
  async purge(projectId: ProjectId): Promise<void> {
    const { ports, driver, effects } = this.#machinery;
    const own = (await ports.records.allSandboxes()).filter((sandbox) => sandbox.projectId === projectId);
    const deleted = await mapInParallel(own, PARALLEL_DELETES, ({ id }) =>
      failureOf(driver.perform(id, 'delete', effects.delete())),
    );
    const dropped: (Failure | null)[] = [];
    for (const { id } of await ports.records.templates.listTemplates(projectId)) {
      dropped.push(await failureOf(ports.records.templates.deleteTemplate(id)));
    }
    for (const snapshot of await this.#named(projectId)) dropped.push(await failureOf(this.#drop(snapshot)));
    const failed = [...deleted, ...dropped].find((end) => end !== null);
    if (failed) throw failed.thrown;
  }

  async #named(projectId: ProjectId): Promise<readonly RecordedSnapshot[]> {
    return (await this.#machinery.ports.records.listSnapshots({ projectId, alsoPlatforms: true, limit: PIECE })).items;
  }

  async #drop(snapshot: RecordedSnapshot): Promise<void> {
    const { ports, driver, pins } = this.#machinery;
    await driver.exclusively(snapshot.sandboxId, async () => {
      // Sandboxes are being started from it; they go first, in the next round.
      if (!pins.has(snapshot.id)) await removePoint(ports, snapshot);
    });
  }
}

interface Failure {
  readonly thrown: unknown;
}

function failureOf(work: Promise<unknown>): Promise<Failure | null> {
  return work.then(
    () => null,
    (thrown: unknown) => ({ thrown }),
  );
}
