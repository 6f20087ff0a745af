/**
 * How points leave this node for an archive, and come back from one. An export takes no sandbox's lock: points do not change,
 * and whatever the sandbox does goes on beside it. An import has the lock of a sandbox that does not exist yet; a delete fences
 * it, and it stops at its next piece.
 */
import {
  type ArchivedPoint,
  type ArchiveIndex,
  type ArchiveSeal,
  beginUse,
  collectSpace,
  exportPoints,
  importPoints,
  listArchives,
  readArchiveKey,
  readIndex,
  removeArchive,
} from '@space/archive';
import {
  AppError,
  type Archive,
  type ArchiveRef,
  type ArchiveSealOrder,
  type ArchiveSource,
  type ArchiveSummary,
  type ImportOrder,
  KeyBytes,
  kindOf,
  type MoveFacts,
  type NodePort,
  type Packer,
  parseArchiveRef,
  type SizeLimits,
} from '@space/core';
import type { NodeState } from './orders.ts';
import { unmetNeed } from './start-life.ts';

export interface PassageOptions {
  readonly archives: ReadonlyMap<string, Archive>;
  readonly limits: SizeLimits;
  readonly packer: Packer;
  /** Ends what is under way when the node does. */
  readonly stop: AbortSignal;
}

type Passage = Pick<
  NodePort,
  | 'exportPoints'
  | 'readArchive'
  | 'readArchiveKey'
  | 'importPoints'
  | 'listArchives'
  | 'removeArchive'
  | 'collectArchives'
>;

/** Each is read for a list. */
const MAX_LISTED = 1000;
/** After each piece that is removed. */
const COLLECT_REST_MS = 5;

/** A use of a space of archives: none of its pieces is collected meanwhile. It ends by the signal, or when it lasts too long. */
export function useSpace(
  { machinery: { clock, chance } }: NodeState,
  archive: Archive,
  space: ArchiveRef['space'],
  signal: AbortSignal,
) {
  return beginUse({ archive, space, clock, chance, signal });
}

export function createPassage(state: NodeState, { archives, limits, packer, stop }: PassageOptions): Passage {
  const { ledger, machinery } = state;
  const placeOf = ({ location, archive }: ArchiveSource): { readonly archive: Archive; readonly ref: ArchiveRef } => ({
    archive: archiveAt(archives, location),
    ref: refOf(archive),
  });
  return {
    async *exportPoints({ vault, sandboxId, location, projectId, template, points, base, seal: given }, signal) {
      using held = heldSeal(given);
      using opened = state.vaults.begin(vault);
      const archive = archiveAt(archives, location);
      const ends = AbortSignal.any([opened.signal, signalOf({ stop }, signal)]);
      await using use = await useSpace(state, archive, projectId, ends);
      yield* exportPoints({
        vault: opened.vault,
        archive: use.archive,
        packer,
        space: projectId,
        sandboxId,
        template,
        points,
        base: base === null ? null : refOf(base),
        limits,
        seal: held.seal,
        madeAt: new Date(machinery.clock.now()).toISOString(),
        signal: use.signal,
      });
    },
    async readArchive({ key, ...source }) {
      using held = heldKey(key);
      const { archive, ref } = placeOf(source);
      return summaryOf(await readIndex(archive, ref, { limits, key: held, signal: stop }), state);
    },
    readArchiveKey: async (source) => {
      const { archive, ref } = placeOf(source);
      return readArchiveKey(archive, ref, stop);
    },
    listArchives: ({ location, projectId }, sandboxId) =>
      listArchives(archiveAt(archives, location), projectId, { sandboxId, limit: MAX_LISTED, signal: stop }),
    removeArchive: async (source) => {
      const { archive, ref } = placeOf(source);
      await removeArchive(archive, ref, stop);
    },
    collectArchives: async ({ location, projectId, insists }, signal) => {
      const { clock, chance } = machinery;
      const archive = archiveAt(archives, location);
      const plan = { archive, packer, space: projectId, clock, chance, insists, restMs: COLLECT_REST_MS };
      return collectSpace({ ...plan, signal: signalOf({ stop }, signal) });
    },
    importPoints: ({ key: given, ...order }, signal) =>
      machinery.tracer.span({ name: 'node importPoints', attributes: { 'space.sandbox': order.sandboxId } }, () =>
        ledger.exclusively(order, async (opened) => {
          using key = heldKey(given);
          const { archive, ref } = placeOf(order);
          const ends = AbortSignal.any([opened.signal, signalOf({ stop }, signal)]);
          await using use = await useSpace(state, archive, ref.space, ends);
          const { points } = await readIndex(archive, ref, { limits, key, signal: use.signal });
          const events = importPoints({
            ...{
              vault: opened.vault,
              archive,
              packer,
              key,
              space: ref.space,
              points,
              chance: machinery.chance,
            },
            as: { kind: 'copy', names: namesOf(points, order), ...order },
            check: () => ledger.checkEpoch(order.sandboxId, order.epoch),
            signal: use.signal,
          });
          for await (const _event of events);
        }),
      ),
  };
}

/** The key of an order, which is overwritten where it came in, and here when it is done with. */
export function heldKey(given: Uint8Array | undefined): KeyBytes | null {
  return given === undefined ? null : KeyBytes.movedFrom(given);
}

/** As `heldKey`, with what an archive has along of it. */
export function heldSeal(given: ArchiveSealOrder | undefined): { readonly seal: ArchiveSeal | null } & Disposable {
  if (given === undefined) return { seal: null, [Symbol.dispose]: () => undefined };
  const key = KeyBytes.movedFrom(given.key);
  return { seal: { key, wrapped: given.wrapped }, [Symbol.dispose]: () => key.wipe() };
}

export function signalOf({ stop }: Pick<PassageOptions, 'stop'>, signal: AbortSignal | undefined): AbortSignal {
  return signal === undefined ? stop : AbortSignal.any([stop, signal]);
}

export function archiveAt(archives: PassageOptions['archives'], location: string): Archive {
  const archive = archives.get(location);
  if (archive !== undefined) return archive;
  const known = [...archives.keys()].join(', ') || 'none';
  throw new AppError('not_found', `There is no place for archives named "${location}"; there is ${known}.`);
}

export function refOf(text: string): ArchiveRef {
  const ref = parseArchiveRef(text);
  if (ref === undefined) throw new AppError('bad_request', 'That is not the name of an archive: prj_…/sbx_…/<digest>.');
  return ref;
}

function namesOf(points: readonly ArchivedPoint[], { points: names }: Pick<ImportOrder, 'points'>) {
  if (points.length !== names.length) {
    throw new AppError('bad_request', `The archive has ${points.length} points, and ${names.length} names were given.`);
  }
  return new Map(points.map(({ manifest }, at) => [manifest.snapshotId, names[at] ?? manifest.snapshotId]));
}

function summaryOf(
  { sandboxId, template, madeAt, points, head, move }: ArchiveIndex,
  { machinery }: NodeState,
): ArchiveSummary {
  const places = new Map(points.map(({ manifest }, at) => [manifest.snapshotId, at]));
  const last = points.find(({ manifest }) => manifest.snapshotId === head);
  const hasMemory = last !== undefined && kindOf(last.manifest) === 'memory';
  const need = hasMemory ? unmetNeed(last.manifest.machine, machinery.runtime) : undefined;
  return {
    ...{ sandboxId, template, madeAt },
    points: points.map(({ manifest: { snapshotId, owner, parent, size, takenAt, ...rest } }) => ({
      snapshotId,
      generation: owner.generation,
      kind: kindOf(rest),
      parent: (parent === null ? undefined : places.get(parent)) ?? null,
      size,
      takenAt,
    })),
    head: places.get(head) ?? 0,
    unfit: need === undefined ? null : need,
    move: move === undefined ? null : factsOf(move),
  };
}

function factsOf({ number, generation, settings, secrets }: NonNullable<ArchiveIndex['move']>): MoveFacts {
  return { number, generation, settings, secrets };
}
