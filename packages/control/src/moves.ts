/**
 * Sandboxes leave for another installation and come from one. What keeps them from running twice is the node's (`moves.ts` there) and the
 * archive's; here a move is one operation of the driver, and its arrival another, so that each ends as what is real.
 */
import type { Exported, Input, Sandbox } from '@space/contract';
import {
  AppError,
  type ArchiveSource,
  type ArchiveSummary,
  DEFAULT_NETWORK_POLICY,
  type MoveFacts,
  type ProjectId,
  type SandboxId,
  type SnapshotId,
} from '@space/core';
import type { ArchiveCollector } from './archive-collector.ts';
import type { ArchiveUseCases } from './archive-use-cases.ts';
import { checkRemoved, factsOf, parseSettings, recordsOfArrival } from './arrivals.ts';
import { type Succeeded, succeeded } from './conclude.ts';
import type { Effect } from './driver.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';
import { goOn } from './retry.ts';
import { inheritedGrants, without } from './secret-use-cases.ts';
import { viewSandbox } from './views.ts';

/** A use may wake it between the pause and the move. */
const MAX_PAUSES = 3;

interface Others {
  readonly sandboxes: LifecycleUseCases;
  readonly archives: ArchiveUseCases;
  readonly collector: ArchiveCollector;
}

interface Coming {
  readonly source: ArchiveSource;
  readonly number: number;
  /** Null: the move that it left by is undone, and all is here. */
  readonly summary: ArchiveSummary | null;
}

export class Moves {
  readonly #machinery: Machinery;
  readonly #sandboxes: LifecycleUseCases;
  readonly #archives: ArchiveUseCases;
  readonly #collector: ArchiveCollector;

  constructor(machinery: Machinery, { sandboxes, archives, collector }: Others) {
    this.#collector = collector;
    this.#machinery = machinery;
    this.#sandboxes = sandboxes;
    this.#archives = archives;
  }

  async moveSandbox(caller: GatedCaller, input: Input<'moveSandbox'>): Promise<Exported> {
    const sandbox = await this.#sandboxes.find(caller, input.id);
    const { id } = sandbox;
    const { location, timeline, base = null } = input;
    const ahead = sandbox.settled === 'running' ? await this.#exportAhead(caller, { ...input, id }) : null;
    try {
      return await this.#leavePaused(caller, id, { location, timeline, base: ahead ?? base });
    } finally {
      // Nobody has asked for it, and the archive of the move needs nothing of it.
      if (ahead !== null) await this.#archives.removeUnasked(sandbox.projectId, { location, archive: ahead });
    }
  }

  /** What takes long, while it runs. Null: somebody else's move has come first, and is told of. */
  async #exportAhead(caller: GatedCaller, input: Input<'moveSandbox'>): Promise<string | null> {
    try {
      return (await this.#archives.exportSandbox(caller, input)).archive;
    } catch (thrown) {
      if ((await this.#sandboxes.find(caller, input.id)).settled === 'moved') return null;
      throw thrown;
    }
  }

  async #leavePaused(caller: GatedCaller, id: SandboxId, leaving: Leaving): Promise<Exported> {
    const { driver, effects } = this.#machinery;
    for (let pauses = 0; ; pauses++) {
      const { settled } = await this.#sandboxes.find(caller, id);
      if (settled === 'running') await driver.perform(id, 'pause', effects.pause(), caller);
      try {
        const { result } = await driver.perform(id, 'move', this.#leave(leaving), caller);
        if (result === undefined) throw new Error('a move ends with its archive');
        return result;
      } catch (thrown) {
        const isAwake = (await this.#sandboxes.find(caller, id)).settled === 'running';
        if (!isAwake || pauses === MAX_PAUSES) throw thrown;
      }
    }
  }

  async undoMove(caller: GatedCaller, { id }: Input<'undoMove'>): Promise<Sandbox> {
    const { settled, moved, moves, ...sandbox } = await this.#sandboxes.find(caller, id);
    if (settled !== 'moved' || moved === null) {
      throw new AppError('wrong_state', `The sandbox is ${settled}: there is no move to undo.`);
    }
    const effect = this.#come({ source: moved, number: moves, summary: null });
    return viewSandbox((await this.#machinery.driver.perform(sandbox.id, 'arrive', effect, caller)).sandbox);
  }

  async importSandbox(caller: GatedCaller, input: Input<'importSandbox'>): Promise<Sandbox> {
    const { driver, effects, ports } = this.#machinery;
    const source = { location: input.location, archive: input.archive };
    const summary = await ports.node.readArchive(source);
    const { move, sandboxId } = summary;
    if (move === null) {
      throw new AppError('bad_request', 'The archive was not made by a move. It can be imported as a copy.');
    }
    if (summary.unfit !== null) {
      throw new AppError('snapshot_unfit', {
        detail: `The memory of the sandbox needs another ${summary.unfit} than this node has; it was left where it is.`,
        facts: { need: summary.unfit },
      });
    }
    const coming = { source, number: move.number, summary };
    const seen = await ports.records.findSandbox(sandboxId);
    if (seen !== null && seen.projectId !== caller.projectId) {
      throw new AppError('wrong_state', `${sandboxId} is one of another project here.`);
    }
    if (!isHere(seen, move.number)) {
      await this.#settle(caller, seen, coming, input).catch(async (thrown: unknown) => {
        // Somebody else's import of the same may have come first, and is waited for.
        const first = await ports.records.findSandbox(sandboxId);
        if (first?.operation === 'arrive') {
          await driver.perform(sandboxId, 'arrive', this.#come(coming), caller).catch(() => undefined);
        }
        if (!isHere(await ports.records.findSandbox(sandboxId), move.number)) throw thrown;
      });
    }
    return viewSandbox((await driver.perform(sandboxId, 'resume', effects.resume(), caller)).sandbox);
  }

  /** Makes it the installation's, paused. */
  async #settle(
    caller: GatedCaller,
    seen: RecordedSandbox | null,
    coming: Coming & { readonly summary: ArchiveSummary },
    { name, env, metadata }: Input<'importSandbox'>,
  ): Promise<void> {
    const { driver, nursery } = this.#machinery;
    const { summary, source, number } = coming;
    const head = summary.points[summary.head];
    if (summary.move === null || head === undefined) throw new Error('it was looked at before');
    if (seen !== null && seen.settled !== 'deleted') {
      await driver.perform(seen.id, 'arrive', this.#come(coming), caller);
      return;
    }
    const settings = parseSettings(summary.move.settings);
    const { generation } = summary.move;
    const birth = {
      ...settings,
      ...(await this.#bindingsOf(caller.projectId, summary.move)),
      projectId: caller.projectId,
      name: name ?? settings.name,
      env: env ?? settings.env,
      metadata: metadata ?? settings.metadata,
      template: summary.template,
      size: head.size,
      vault: await this.#machinery.vaults.of(caller.principal.organisationId),
      // What it may reach was granted elsewhere.
      network: DEFAULT_NETWORK_POLICY,
      // Who brings it here says when it ends here.
      expiry: null,
      forkedFrom: null,
      arrival: { number, generation, source },
    };
    const begin = (begun: RecordedSandbox) => this.#bring(begun, coming);
    const [born] = await nursery.bear([birth], caller, { ids: [summary.sandboxId], begin });
    if (born !== undefined && 'error' in born) throw born.error;
  }

  #leave({ location, timeline, base }: Leaving): Effect<Exported> {
    const { node, records } = this.#machinery.ports;
    return {
      plan: async ({ moved, moves }) => ({ input: { move: moved === null ? moves + 1 : moves } }),
      run: async (begun, { input: { move: number = 0 } }) => {
        const points = await this.#pointsOf(begun, timeline);
        const { id: sandboxId, vault, epoch, template, projectId } = begun;
        // What goes along is read from the records, too.
        await this.#machinery.vaults.ensureOpen(vault);
        const order = {
          ...{ vault, sandboxId, epoch, location, projectId, template, points, base },
          move: factsOf(begun, number),
          claimant: await records.installation(),
        };
        const ended = await this.#collector.expect(projectId, location);
        let leavesNothing = false;
        const { archive, readBytes, sentBytes } = await goOn(() => node.handOver(order))
          .then((handedOver) => {
            leavesNothing = true;
            return handedOver;
          })
          .finally(() => ended(leavesNothing));
        const at = begun.moved?.archive === archive ? begun.moved.location : location;
        const changes = { moved: { location: at, archive }, moves: number };
        return succeeded({ archive, location: at, snapshots: [...points], readBytes, sentBytes }, { changes });
      },
    };
  }

  /** Of what it named where it was, what its project is granted here. */
  async #bindingsOf(projectId: ProjectId, { secrets: named }: MoveFacts) {
    const secrets = await inheritedGrants(this.#machinery.ports, projectId, named);
    return { secrets, missingSecrets: without(named, secrets) };
  }

  /** Oldest first; the last is the one that it is paused at. None can be deleted while the move is in flight. */
  async #pointsOf({ id, head }: RecordedSandbox, timeline: boolean): Promise<readonly SnapshotId[]> {
    const { records } = this.#machinery.ports;
    const last = head === null ? null : await records.findSnapshot(head);
    if (last === null || last.sandboxId !== id) {
      throw new AppError('snapshot_bad', 'The point that the sandbox is paused at is not one of its own.');
    }
    if (!timeline) return [last.id];
    const own = await records.snapshotsOf(id);
    const before = own.filter((point) => point.state === 'good' && point.timeMs < last.timeMs);
    return [...before.toSorted((a, b) => a.timeMs - b.timeMs).map((point) => point.id), last.id];
  }

  #come(coming: Coming): Effect<undefined> {
    return {
      plan: async (seen) => {
        checkNumber(seen, coming);
        return { input: { move: coming.number, source: coming.source } };
      },
      run: (begun) => this.#bring(begun, coming),
    };
  }

  async #bring(begun: RecordedSandbox, { source, number, summary }: Coming): Promise<Succeeded<undefined>> {
    const { node, records } = this.#machinery.ports;
    const { id: sandboxId, vault, epoch } = begun;
    if (summary !== null) await checkRemoved(records, summary);
    const points = summary === null ? [] : await recordsOfArrival(records, begun, summary);
    const claimant = await records.installation();
    if (summary?.move != null) {
      // What it named where it was; before it is here, so that it cannot run without. If it does not come, it is as it left.
      const bindings = await this.#bindingsOf(begun.projectId, summary.move);
      await records.updateSandbox(sandboxId, bindings, new Date(this.#machinery.ports.clock.now()));
    }
    const { head, generation } = await goOn(() => node.arrive({ vault, sandboxId, epoch, ...source, claimant }));
    return succeeded(undefined, { changes: { head, generation, moves: number, moved: null }, points });
  }
}

type Leaving = Pick<Input<'moveSandbox'>, 'location' | 'timeline'> & { readonly base: string | null };

/** It has arrived by that move, whatever became of it since. */
function isHere(seen: RecordedSandbox | null, number: number): boolean {
  if (seen === null || seen.settled === 'deleted' || seen.settled === 'moved') return false;
  return seen.settled !== 'absent' && seen.moves === number;
}

/** An id is taken up again by a later move, or by the one that it left by. */
function checkNumber({ moves, moved }: RecordedSandbox, { number, source }: Coming): void {
  if (number > moves || (number === moves && moved?.archive === source.archive)) return;
  throw new AppError('move_taken', 'The sandbox has been here by this move, or a later one, and left again.');
}
