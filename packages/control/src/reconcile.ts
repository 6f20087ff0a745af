/**
 * The reconciler: compares what is recorded with what the node holds, at the start, at intervals, and when a VM ends.
 *
 * - Operations in flight that no live process carries out are ended by what is real; a delete is completed.
 * - At rest, what is real wins. A sandbox that the node does not hold is `crashed`, never deleted: unknown is not gone.
 * - Of what lies in a vault that is closed nothing is known, and it is left as it is recorded. Only for what is recorded as running, or as
 *   being changed, is its vault opened; where that cannot be, nothing can run in it.
 * - What the node holds and the records say is deleted is destroyed. What the records do not know is reported and left
 *   alone.
 */
import {
  asAppError,
  hasVm,
  type InspectedSandbox,
  type LifeEnd,
  type OperationId,
  react,
  type SandboxId,
  type Settled,
  type VaultName,
} from '@space/core';
import { absentSandbox, concludeUnknown, inspectReal, NOTHING } from './conclude.ts';
import type { Metrics } from './metrics.ts';
import type { ControlPorts } from './ports.ts';
import type { Crash, RecordedSandbox, SandboxChanges } from './records.ts';
import { retryUnavailable } from './retry.ts';
import { mortalPoints } from './timeline.ts';
import { isShut, type Vaults } from './vaults.ts';

export interface ReconcileReport {
  /** Operations of a dead process that were ended. */
  readonly recovered: number;
  /** Sandboxes whose recorded state was corrected. */
  readonly corrected: number;
  /** Held by the node, unknown to the records; left alone. */
  readonly unknown: readonly SandboxId[];
}

/** `crash`: how it ended, where that is known. */
type Found = InspectedSandbox & { readonly crash?: Crash };

export class Reconciler {
  readonly #ports: ControlPorts;
  readonly #owns: (operationId: OperationId) => boolean;
  readonly #metrics: Metrics;
  readonly #vaults: Pick<Vaults, 'ensureOpen'>;
  readonly #recovering = new Map<SandboxId, Promise<boolean>>();

  constructor(
    ports: ControlPorts,
    owns: (operationId: OperationId) => boolean,
    metrics: Metrics,
    vaults: Pick<Vaults, 'ensureOpen'>,
  ) {
    this.#vaults = vaults;
    this.#ports = ports;
    this.#owns = owns;
    this.#metrics = metrics;
  }

  async reconcile(): Promise<ReconcileReport> {
    const { records, node, logger } = this.#ports;
    // Records first: what is settled below was seen after it, and a sandbox that moved on since is left alone.
    const recorded = await records.allSandboxes();
    const held = new Map((await node.inspectAll()).map((one) => [one.sandboxId, one]));
    const shut = new Map<VaultName, unknown>();
    let recovered = 0;
    let corrected = 0;
    for (const sandbox of recorded) {
      try {
        // One that is not among them is asked for by name: it may be there and unreadable.
        const inspected: Found | null = held.get(sandbox.id) ?? (await this.#inspect(sandbox, shut));
        held.delete(sandbox.id);
        if (inspected === null) continue;
        if (sandbox.operation === null) corrected += Number(await this.#correct(sandbox, inspected, inspected.crash));
        else recovered += Number(await this.recover(sandbox));
      } catch (err) {
        // One bad item does not keep the others from being looked at; it is met again at the next interval.
        logger.error({ sandboxId: sandbox.id, err }, 'a sandbox could not be reconciled');
      }
    }
    return { recovered, corrected, unknown: await this.#removeDead([...held.keys()]) };
  }

  /** Null: it rests in a vault that is closed. `shut` are those that could not be opened in this round, and why. */
  async #inspect(sandbox: RecordedSandbox, shut: Map<VaultName, unknown>): Promise<Found | null> {
    const { node, clock } = this.#ports;
    try {
      return await inspectReal(node, sandbox);
    } catch (thrown) {
      if (!isShut(thrown)) throw thrown;
    }
    if (sandbox.operation === null && !hasVm(sandbox.settled)) return null;
    const { vault } = sandbox;
    if (!shut.has(vault)) {
      const failed = await this.#vaults.ensureOpen(vault).then(
        () => null,
        (cause: unknown) => ({ cause }),
      );
      if (failed === null) return inspectReal(node, sandbox);
      shut.set(vault, failed.cause);
    }
    // An operation may have changed it before the vault was closed: it is ended once that can be looked at.
    if (sandbox.operation !== null || !isShut(shut.get(vault))) throw shut.get(vault);
    const detail = `Its vault is closed, and cannot be opened: ${asAppError(shut.get(vault)).message}`;
    return { ...absentSandbox(sandbox), real: 'crashed', crash: { detail, at: new Date(clock.now()) } };
  }

  /** Ends the operation in flight if nobody carries it out, and says whether. Concurrent calls share one attempt. */
  recover(orphan: RecordedSandbox): Promise<boolean> {
    const present = this.#recovering.get(orphan.id);
    if (present !== undefined) return present;
    const attempt = this.#endOrphan(orphan).finally(() => this.#recovering.delete(orphan.id));
    this.#recovering.set(orphan.id, attempt);
    return attempt;
  }

  /** Looked at anew each time the database or the node did not answer: until the next round the record would be untrue. */
  async lifeEnded({ sandboxId, lifeId, detail }: LifeEnd): Promise<void> {
    const { records, clock, logger } = this.#ports;
    const at = new Date(clock.now());
    await retryUnavailable(async () => {
      const sandbox = await records.findSandbox(sandboxId);
      if (sandbox === null || sandbox.operation !== null || !hasVm(sandbox.settled)) return;
      const inspected = await inspectReal(this.#ports.node, sandbox);
      // Another life may run by now.
      if (hasVm(inspected.real)) return;
      logger.warn({ sandboxId, lifeId, detail }, 'a microVM ended unasked');
      await this.#correct(sandbox, inspected, { detail, at });
    });
  }

  /** Its vCPUs were stopped, or run again. An operation in flight ends with what is real by itself. */
  async lifeTurned(sandboxId: SandboxId): Promise<void> {
    const { records, node } = this.#ports;
    await retryUnavailable(async () => {
      const sandbox = await records.findSandbox(sandboxId);
      if (sandbox === null || sandbox.operation !== null || !hasVm(sandbox.settled)) return;
      await this.#correct(sandbox, await inspectReal(node, sandbox));
    });
  }

  async #endOrphan({ id, operation, operationId }: RecordedSandbox): Promise<boolean> {
    const { records, node, clock, logger } = this.#ports;
    if (operation === null || operationId === null || this.#owns(operationId)) return false;
    // In this order: what is ours may have ended since it was read, and then it is not touched.
    const orphan = await records.findSandbox(id);
    if (orphan?.operationId !== operationId) return false;
    const at = () => new Date(clock.now());
    const doomed = operation === 'delete' ? await mortalPoints(records, orphan.id) : [];
    if (operation === 'delete') await this.#destroy(orphan);
    else await this.#vaults.ensureOpen(orphan.vault);
    const inspected = await inspectReal(node, orphan);
    const ok = operation === 'delete' || hasVm(inspected.real);
    const journal = await records.findOperation(operationId);
    const conclusion =
      operation === 'create' && ok
        ? NOTHING
        : await concludeUnknown(this.#ports, orphan, journal?.input ?? {}, inspected);
    const after = react(orphan, { kind: 'ended', operation, ok, real: inspected.real });
    const crash =
      after.settled === 'crashed' ? { detail: 'The microVM was gone when the platform came back.', at: at() } : null;
    const outcome = operation === 'delete' || conclusion.tookPlace === true ? 'ok' : 'interrupted';
    const ended = await records.endOperation({
      sandboxId: orphan.id,
      operationId,
      epoch: orphan.epoch,
      settled: after.settled,
      outcome,
      errorCode: null,
      timings: null,
      changes: { ...conclusion.changes, crash },
      points: conclusion.points,
      dropped: conclusion.dropped,
      doomed: [...conclusion.doomed, ...doomed],
      at: at(),
    });
    if (ended !== null && journal !== null)
      this.#metrics.operationEnded(operation, outcome, clock.now() - journal.startedAt.getTime());
    logger.info({ sandboxId: orphan.id, operation, settled: after.settled }, 'an interrupted operation was ended');
    return true;
  }

  /** Each attempt that fails is a figure: one that goes on failing never ends, and would show nowhere. */
  async #destroy({ id: sandboxId, vault, epoch }: RecordedSandbox): Promise<void> {
    const { node, clock } = this.#ports;
    const sinceMs = clock.monotonicMs();
    try {
      await node.destroy({ vault, sandboxId, epoch, points: [] });
    } catch (thrown) {
      this.#metrics.operationEnded('delete', 'failed', clock.monotonicMs() - sinceMs);
      throw thrown;
    }
  }

  /** Whether the record was wrong. */
  async #correct(
    sandbox: RecordedSandbox,
    inspected: InspectedSandbox,
    crash = { detail: notFound(inspected), at: new Date(this.#ports.clock.now()) },
  ): Promise<boolean> {
    // Whatever a node says, one that has left runs nowhere here: only an arrival changes that.
    if (sandbox.settled === 'moved') return false;
    const settled: Settled = inspected.real === 'absent' ? 'crashed' : inspected.real;
    if (settled === sandbox.settled) return false;
    const head = await this.#knownHead(inspected);
    if (settled === 'paused' && head === undefined) {
      this.#ports.logger.error(
        { sandboxId: sandbox.id, head: inspected.head },
        'a sandbox is paused at an unknown point',
      );
    }
    const changes: SandboxChanges = {
      crash: settled === 'crashed' ? crash : null,
      ...(settled === 'paused' && head !== undefined ? { head } : {}),
      ...(inspected.moved === undefined ? {} : { moved: inspected.moved }),
      ...(inspected.generation > sandbox.generation ? { generation: inspected.generation } : {}),
    };
    const { records, clock, logger } = this.#ports;
    const changed = await records.settle({ seen: sandbox, settled, changes, at: new Date(clock.now()) });
    if (changed) {
      logger.warn({ sandboxId: sandbox.id, recorded: sandbox.settled, real: inspected.real }, 'a record was corrected');
    }
    return changed;
  }

  async #knownHead({ head }: InspectedSandbox) {
    if (head === null) return undefined;
    return (await this.#ports.records.findSnapshot(head))?.id;
  }

  async #removeDead(sandboxIds: readonly SandboxId[]): Promise<readonly SandboxId[]> {
    const { records, node, logger } = this.#ports;
    const unknown: SandboxId[] = [];
    for (const sandboxId of sandboxIds) {
      const tombstone = await records.findSandbox(sandboxId);
      if (tombstone === null) {
        unknown.push(sandboxId);
        logger.warn({ sandboxId }, 'the node holds a sandbox that the records do not know; it is left alone');
      } else if (tombstone.settled === 'deleted') {
        await node
          .destroy({ vault: tombstone.vault, sandboxId, epoch: tombstone.epoch, points: [] })
          .catch((err: unknown) => logger.error({ sandboxId, err }, 'a deleted sandbox could not be removed'));
      }
    }
    return unknown;
  }
}

function notFound({ real }: InspectedSandbox): string {
  return real === 'absent' ? 'The node does not hold the sandbox any more.' : 'The microVM was gone.';
}
