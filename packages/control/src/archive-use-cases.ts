/**
 * Sandboxes leave for archives and come from them. What is exported is pinned meanwhile. An import is a create whose point comes
 * from afar: it is recorded first, then its points are brought into the vault, and it is started from the last.
 */
import type { ArchiveList, Exported, ExportWireEvent, Input, Sandbox } from '@space/contract';
import {
  AppError,
  type ArchiveSource,
  DEFAULT_NETWORK_POLICY,
  DEFAULT_PAUSE_AFTER_MS,
  newId,
  type ProjectId,
  parseArchiveRef,
  type SnapshotId,
} from '@space/core';
import type { ArchiveCollector, EndOfChange } from './archive-collector.ts';
import { type Brought, recordsOf } from './arrivals.ts';
import { type Succeeded, succeeded } from './conclude.ts';
import { timingsOf } from './effects.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox, RecordedSnapshot } from './records.ts';
import { goOn } from './retry.ts';
import { findSnapshot } from './scope.ts';
import { pinned } from './timeline.ts';
import { viewSandbox } from './views.ts';

export class ArchiveUseCases {
  readonly #machinery: Machinery;
  readonly #sandboxes: LifecycleUseCases;
  readonly #collector: ArchiveCollector;

  constructor(machinery: Machinery, sandboxes: LifecycleUseCases, collector: ArchiveCollector) {
    this.#collector = collector;
    this.#machinery = machinery;
    this.#sandboxes = sandboxes;
  }

  async exportSandbox(caller: GatedCaller, input: Input<'exportSandbox'>): Promise<Exported> {
    for await (const event of this.followExport(caller, input)) {
      if (event.type !== 'exported') continue;
      const { type: _, ...exported } = event;
      return exported;
    }
    throw new AppError('link_lost', 'The export ended without its result.');
  }

  /** Given up when its reader leaves. */
  async *followExport(caller: GatedCaller, input: Input<'followExport'>): AsyncGenerator<ExportWireEvent> {
    const { ports, pins } = this.#machinery;
    const sandbox = await this.#sandboxes.find(caller, input.id);
    const { location, base = null } = input;
    checkBase(base, sandbox);
    const last = await this.#lastPoint(caller, sandbox, input.snapshot);
    const held = [last.id];
    let leavesNothing = false;
    let ended: EndOfChange | undefined;
    try {
      ended = await this.#collector.expect(sandbox.projectId, location);
      const points = input.timeline ? await this.#pinnedUntil(last, held) : [last.id];
      const { id: sandboxId, vault, template, projectId } = sandbox;
      const order = { vault, sandboxId, location, projectId, template, points, base };
      for await (const event of ports.node.exportPoints(order, caller.signal)) {
        if (event.kind === 'done') {
          leavesNothing = true;
          const { archive, readBytes, sentBytes } = event;
          yield { type: 'exported', archive, location, snapshots: [...points], readBytes, sentBytes };
        } else {
          const { kind: _, ...facts } = event;
          yield { type: 'progress', points: points.length, ...facts };
        }
      }
    } catch (thrown) {
      if (thrown instanceof AppError && thrown.code === 'not_found') leavesNothing = true;
      throw thrown;
    } finally {
      for (const id of held) pins.unpin(id);
      await ended?.(leavesNothing);
    }
  }

  /** Pinned. */
  async #lastPoint(caller: GatedCaller, sandbox: RecordedSandbox, reference: string | undefined) {
    const { ports, pins, driver, effects } = this.#machinery;
    const own = async (id: string) => {
      const point = await findSnapshot(ports.records, sandbox.projectId, id);
      if (point.sandboxId === sandbox.id) return point;
      throw new AppError('not_found', `The snapshot "${id}" is not one of ${sandbox.id}.`);
    };
    if (reference !== undefined) return pinned(pins, () => own(reference));
    const { result } = await driver.perform(sandbox.id, 'snapshot', effects.presentPoint('archive'), caller);
    if (result === undefined) throw new Error('an operation that takes a point ends with it');
    return pinned(pins, () => own(result.id));
  }

  /** All good points up to the last, oldest first; each is pinned and added to `held`. */
  async #pinnedUntil(last: RecordedSnapshot, held: SnapshotId[]): Promise<readonly SnapshotId[]> {
    const { ports, pins } = this.#machinery;
    const upTo = async () => {
      const all = await ports.records.snapshotsOf(last.sandboxId);
      const own = all.filter(({ state, timeMs }) => state === 'good' && timeMs < last.timeMs);
      return own.toSorted((a, b) => a.timeMs - b.timeMs).map(({ id }) => id);
    };
    for (const id of await upTo()) {
      pins.pin(id);
      held.push(id);
    }
    // Those that went before they were pinned are not among them any more.
    const still = (await upTo()).filter((id) => held.includes(id));
    return [...still, last.id];
  }

  async listArchives({ projectId }: GatedCaller, input: Input<'listArchives'>): Promise<ArchiveList> {
    const { location, sandbox = null } = input;
    const archives = await this.#machinery.ports.node.listArchives({ location, projectId }, sandbox);
    return { archives: [...archives] };
  }

  /** What holds a sandbox that was moved and not taken up is all that there is of it. */
  async deleteArchive({ projectId }: GatedCaller, { archive, location }: Input<'deleteArchive'>): Promise<void> {
    const { records } = this.#machinery.ports;
    const ref = parseArchiveRef(archive);
    // Those of another project look like none, and one that is gone is gone.
    if (ref?.space !== projectId) throw new AppError('not_found', `There is no archive ${archive}.`);
    const seen = await records.findSandbox(ref.sandboxId);
    if (seen?.projectId === projectId && seen.settled !== 'deleted' && seen.moved?.archive === archive) {
      throw new AppError('wrong_state', {
        detail: `${seen.id} was moved into this archive. Undo the move, or delete the sandbox, and then the archive.`,
        facts: { sandboxId: seen.id },
      });
    }
    await this.#remove(projectId, { location, archive });
  }

  /** What was made in the midst of something else. If it cannot be removed now, it is listed with the others. */
  async removeUnasked(projectId: ProjectId, source: ArchiveSource): Promise<void> {
    await this.#remove(projectId, source).catch((err: unknown) =>
      this.#machinery.ports.logger.warn({ ...source, err }, 'an archive that nobody asked for is left'),
    );
  }

  async #remove(projectId: ProjectId, source: ArchiveSource): Promise<void> {
    const ended = await this.#collector.expect(projectId, source.location);
    try {
      await this.#machinery.ports.node.removeArchive(source);
    } finally {
      await ended(false);
    }
  }

  async importSandbox(caller: GatedCaller, input: Input<'importSandbox'>): Promise<Sandbox> {
    const { ports, nursery } = this.#machinery;
    const source = { location: input.location, archive: input.archive };
    const summary = await ports.node.readArchive(source);
    const head = summary.points[summary.head];
    if (head === undefined) throw new Error('an archive has the point that it goes on from');
    if (summary.unfit !== null && !input.boot) throw unfit(summary.unfit);
    const birth = {
      projectId: caller.projectId,
      name: input.name ?? null,
      template: summary.template,
      size: head.size,
      vault: await this.#machinery.vaults.of(caller.principal.organisationId),
      env: input.env ?? {},
      metadata: input.metadata ?? {},
      pauseAfterMs: DEFAULT_PAUSE_AFTER_MS,
      wakeAt: null,
      expiry: null,
      snapshotPolicy: {},
      network: DEFAULT_NETWORK_POLICY,
      forkedFrom: null,
      arrival: null,
    };
    const begin = (begun: RecordedSandbox) => this.#bring(begun, source, { summary, boot: input.boot });
    const [born] = await nursery.bear([birth], caller, { begin });
    if (born === undefined) throw new Error('who bears one has one');
    if ('error' in born) throw born.error;
    return viewSandbox(born.sandbox);
  }

  /** What was brought goes again when the sandbox cannot be started. */
  async #bring(
    begun: RecordedSandbox,
    source: ArchiveSource,
    { summary, boot }: Brought,
  ): Promise<Succeeded<undefined>> {
    const { node, records, chance, logger } = this.#machinery.ports;
    const { id: sandboxId, vault, epoch, generation, template, size } = begun;
    const points = summary.points.map(() => newId('snapshot', chance));
    const from = points[summary.head];
    if (from === undefined) throw new Error('an archive has the point that it goes on from');
    try {
      await goOn(() => node.importPoints({ vault, sandboxId, epoch, ...source, points, generation, disksOnly: boot }));
      const life = await node.start({ vault, sandboxId, epoch, from, template, generation, size });
      const brought = await recordsOf(records, begun, { summary, boot }, points);
      return succeeded(undefined, { timings: timingsOf(life), changes: { head: from }, points: brought });
    } catch (thrown) {
      for (const id of points) {
        await node
          .deletePoint(vault, id)
          .catch((err: unknown) => logger.warn({ sandboxId, snapshotId: id, err }, 'a point is left of an import'));
      }
      throw thrown;
    }
  }
}

/** What is of another sandbox or project has nothing to say of this one. */
function checkBase(base: string | null, { id, projectId }: RecordedSandbox): void {
  const ref = base === null ? null : parseArchiveRef(base);
  if (ref === null || (ref?.sandboxId === id && ref.space === projectId)) return;
  throw new AppError('bad_request', `The archive given as base is not one of ${id}.`);
}

/** Archives of a project are its own; who runs the installation brings in those of others, as from another cluster. */
export function checkReach({ principal, projectId }: GatedCaller, archive: string): void {
  if (parseArchiveRef(archive)?.space === projectId) return;
  if (principal.operator && principal.onlyProject === null && principal.roles.includes('admin')) return;
  throw new AppError('not_found', `There is no archive ${archive}.`);
}

function unfit(need: string): AppError {
  return new AppError('snapshot_unfit', {
    detail: `The memory in the archive needs another ${need} than this node has. Import it with "boot": its disk alone is taken.`,
    facts: { need },
  });
}
