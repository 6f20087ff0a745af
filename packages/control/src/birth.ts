/** How sandboxes come into being: recorded first, all or none, then started from a point. */
import { AppError, asAppError, newId, type SandboxId, type SnapshotId } from '@space/core';
import type { Admission } from './admission.ts';
import { type Succeeded, succeeded } from './conclude.ts';
import type { Driver } from './driver.ts';
import { timingsOf } from './effects.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { ControlPorts } from './ports.ts';
import { inputOfBirth, type NewSandbox, type RecordedSandbox } from './records.ts';
import { mapInParallel } from './turns.ts';

/** Starts at once: each takes memory and a VMM's start, and a node has few processors. */
const PARALLEL_STARTS = 4;

export type Birth = Omit<NewSandbox, 'id' | 'operationId' | 'by' | 'at'>;
export type Born = { readonly sandbox: RecordedSandbox } | { readonly error: AppError };

/** What makes it run, once it is recorded. When it fails, the sandbox was never there. */
type Begin = (begun: RecordedSandbox) => Promise<Succeeded<undefined>>;

interface BearOptions {
  /** Of those that memory was reserved for. */
  readonly ids?: readonly SandboxId[];
  /** Left out: from the point that it is forked from, or of its template. */
  readonly begin?: Begin;
}

export class Nursery {
  readonly #ports: ControlPorts;
  readonly #driver: Driver;
  readonly #admission: Admission;

  constructor(ports: ControlPorts, driver: Driver, admission: Admission) {
    this.#ports = ports;
    this.#driver = driver;
    this.#admission = admission;
  }

  /** Runs `work` with memory reserved for so many sandboxes to be. Throws `insufficient_memory` when it is not there for all. */
  async withMemory<T>(count: number, memoryMib: number, work: (ids: readonly SandboxId[]) => Promise<T>): Promise<T> {
    const { node, chance, logger } = this.#ports;
    this.#admission.checkNobodyWaits();
    const ids = Array.from({ length: count }, () => newId('sandbox', chance));
    await node.reserveMemory(ids.map((sandboxId) => ({ sandboxId, memoryMib })));
    try {
      return await work(ids);
    } finally {
      await node
        .releaseMemory(ids)
        .catch((err: unknown) => logger.warn({ err }, 'memory that no start took up is not free yet'));
    }
  }

  /** Throws when nothing could be recorded; else one result per birth, in order. Without a caller, they are the platform's own. */
  async bear(
    births: readonly Birth[],
    caller: GatedCaller | null,
    { ids = [], begin = (begun) => this.#fromPoint(begun) }: BearOptions = {},
  ): Promise<readonly Born[]> {
    this.#driver.checkOpen();
    if (ids.length === 0) this.#admission.checkNobodyWaits();
    const { records, chance, clock } = this.#ports;
    const at = new Date(clock.now());
    const recorded = births.map((birth, index): NewSandbox => {
      return {
        ...birth,
        id: ids[index] ?? newId('sandbox', chance),
        operationId: newId('operation', chance),
        by: caller?.asker ?? null,
        at,
      };
    });
    // From the first instant the operations are known as ours, so that no reconciler takes them for orphans.
    const own = recorded.map(({ operationId }) => this.#driver.own(operationId));
    try {
      await records.addSandboxes(recorded);
      for (const { operationId } of recorded) caller?.onOperation?.(operationId);
      return await mapInParallel(recorded, PARALLEL_STARTS, (newOne) => this.#start(newOne, begin));
    } finally {
      for (const disown of own) disown();
    }
  }

  async #start({ id, arrival, forkedFrom }: NewSandbox, begin: Begin): Promise<Born> {
    const { records } = this.#ports;
    try {
      const begun = await records.findSandbox(id);
      if (begun?.operation !== (arrival === null ? 'create' : 'arrive'))
        throw new AppError('superseded', `${id} was deleted before it was started.`);
      const { sandbox } = await this.#driver.performCreate(begun, inputOfBirth({ forkedFrom, arrival }), () =>
        begin(begun),
      );
      return { sandbox };
    } catch (thrown) {
      return { error: asAppError(thrown) };
    }
  }

  async #fromPoint(begun: RecordedSandbox): Promise<Succeeded<undefined>> {
    const from = begun.forkedFrom?.snapshotId ?? (await this.#readySnapshot(begun));
    const { id, epoch, vault, template, size, generation } = begun;
    const life = await this.#ports.node.start({ vault, sandboxId: id, epoch, from, template, generation, size });
    return succeeded(undefined, { timings: timingsOf(life) });
  }

  async #readySnapshot(begun: RecordedSandbox): Promise<SnapshotId> {
    const ready = await this.#ports.node.ensureReady(begun.vault, begun.template, begun.size);
    // That may have taken minutes, and a delete may have come and gone: the node would not remember it.
    const now = await this.#ports.records.findSandbox(begun.id);
    if (now?.epoch !== begun.epoch) throw new AppError('superseded', `${begun.id} was deleted while it was created.`);
    return ready;
  }
}
