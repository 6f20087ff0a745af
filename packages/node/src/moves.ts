/**
 * How a sandbox leaves this node for another, and comes to it, so that it never runs on two.
 *
 * ```
 *   handOver   pieces ─► record: moved ─► index                   nobody can take it up before it is fenced here
 *   arrive     pieces ─► claim in the archive ─► record: paused   nobody starts it before it is theirs
 *   undo                 claim in the archive ─► record: paused   by who left it: then nobody else can have it
 * ```
 *
 * The claim is what is exclusive: the storage makes one, for whoever asks first. Each step is durable before the next, and each order
 * can be given again after any of them.
 */
import { type ArchiveIndex, claimMove, exportPoints, importPoints, readIndex } from '@space/archive';
import {
  AppError,
  type Arrived,
  type ArriveOrder,
  type HandedOver,
  type HandOverOrder,
  type KeyBytes,
  MANIFEST_FORMAT,
  type NodePort,
  type SandboxRecord,
  type SnapshotId,
  type Vault,
} from '@space/core';
import type { NodeState } from './orders.ts';
import { archiveAt, heldKey, heldSeal, type PassageOptions, refOf, signalOf, useSpace } from './passage.ts';

const NONCE_BYTES = 16;

type Moves = Pick<NodePort, 'handOver' | 'arrive'>;

interface Bringing {
  readonly vault: Vault;
  readonly index: ArchiveIndex;
  readonly order: Omit<ArriveOrder, 'key'>;
  /** Null: the archive is not encrypted. */
  readonly key: KeyBytes | null;
  readonly signal: AbortSignal;
}

export function createMoves(state: NodeState, options: PassageOptions): Moves {
  const { ledger, machinery } = state;
  const alone =
    <O extends HandOverOrder | ArriveOrder, T>(move: (order: O, signal: AbortSignal) => Promise<T>) =>
    (order: O, signal?: AbortSignal) =>
      machinery.tracer.span({ name: `node ${move.name}`, attributes: { 'space.sandbox': order.sandboxId } }, () =>
        ledger.exclusively(order, (use) => move(order, AbortSignal.any([use.signal, signalOf(options, signal)]))),
      );

  async function handOver(order: HandOverOrder, signal: AbortSignal): Promise<HandedOver> {
    const { vault, record } = ledger.get(order.sandboxId);
    const { moved } = record;
    if (moved !== undefined) {
      const key = { kind: 'index', ...refOf(moved.archive) } as const;
      const isThere = await archiveAt(options.archives, moved.location).has(key, signal);
      if (isThere) return { archive: moved.archive, readBytes: 0, sentBytes: 0 };
      // It broke off between the fence and the index.
      await takeBack(vault, { ...record, epoch: order.epoch }, order.claimant, signal);
    }
    if (state.lives.has(order.sandboxId) || record.life !== null) {
      throw new AppError('wrong_state', `${order.sandboxId} is not paused.`);
    }
    if (record.head !== order.points.at(-1)) {
      throw new AppError('wrong_state', `${order.sandboxId} is paused at ${record.head}.`);
    }
    return seal(vault, { ...record, epoch: order.epoch }, order, signal);
  }

  async function seal(vault: Vault, record: SandboxRecord, order: HandOverOrder, stopped: AbortSignal) {
    const { location, move } = order;
    using held = heldSeal(order.seal);
    const archive = archiveAt(options.archives, location);
    await using use = await useSpace(state, archive, order.projectId, stopped);
    const { signal } = use;
    let sealed: SandboxRecord | null = null;
    const events = exportPoints({
      ...{ vault, sandboxId: order.sandboxId, template: order.template, points: order.points, signal },
      archive: use.archive,
      packer: options.packer,
      space: order.projectId,
      base: order.base === null ? null : refOf(order.base),
      limits: options.limits,
      seal: held.seal,
      madeAt: new Date(machinery.clock.now()).toISOString(),
      move: {
        ...move,
        nonce: Buffer.from(machinery.chance.bytes(NONCE_BYTES)).toString('hex'),
        fence: async (name) => {
          ledger.checkEpoch(order.sandboxId, order.epoch);
          sealed = { ...record, moved: { location, archive: name } };
          await ledger.write(vault, sealed);
        },
      },
    });
    try {
      for await (const event of events) {
        if (event.kind === 'done')
          return { archive: event.archive, readBytes: event.readBytes, sentBytes: event.sentBytes };
      }
      throw new Error('an export ends with its archive');
    } catch (thrown) {
      // The index may be there for all that is known. Where it can be made sure of, the sandbox is as it was.
      if (sealed !== null) await takeBack(vault, sealed, order.claimant, options.stop).catch(() => undefined);
      throw thrown;
    }
  }

  /** Throws `move_taken`; `archive_unavailable`, and then it is still moved. */
  async function takeBack(vault: Vault, { moved, ...record }: SandboxRecord, claimant: string, signal: AbortSignal) {
    if (moved === undefined) return;
    await claimMove(archiveAt(options.archives, moved.location), refOf(moved.archive), claimant, signal);
    await ledger.write(vault, record);
  }

  async function arrive({ key: given, ...order }: ArriveOrder, stopped: AbortSignal): Promise<Arrived> {
    using key = heldKey(given);
    const vault = ledger.vault(order.vault);
    const here = ledger.find(order.sandboxId)?.record;
    if (here?.moved?.archive === order.archive) {
      await takeBack(vault, { ...here, epoch: order.epoch }, order.claimant, stopped);
      return { head: here.head, generation: here.generation };
    }
    const archive = archiveAt(options.archives, order.location);
    const ref = refOf(order.archive);
    if (here?.life) throw new AppError('wrong_state', `${order.sandboxId} is here, and runs.`);
    await using use = await useSpace(state, archive, ref.space, stopped);
    const { signal } = use;
    const index = await readIndex(archive, ref, { limits: options.limits, key, signal });
    if (here !== undefined && here.moved === undefined && here.head === index.head) {
      // It has arrived before, and whoever asked was not told.
      await claimMove(archive, ref, order.claimant, signal);
      return { head: here.head, generation: here.generation };
    }
    const record = recordOf(index, order);
    await bring({ vault, index, order, key, signal }, async () => {
      await claimMove(archive, ref, order.claimant, signal);
      await ledger.write(vault, record);
    });
    return { head: record.head, generation: record.generation };
  }

  /** What this attempt brought goes again when it fails: it may be given up. */
  async function bring(
    { vault, index: { points }, order, key, signal }: Bringing,
    settle: () => Promise<void>,
  ): Promise<void> {
    const before = new Set(await vault.points());
    const { space } = refOf(order.archive);
    const archive = archiveAt(options.archives, order.location);
    const check = () => ledger.checkEpoch(order.sandboxId, order.epoch);
    try {
      const { packer } = options;
      const plan = { vault, archive, packer, key, space, points, chance: machinery.chance, check, signal };
      for await (const _event of importPoints({ ...plan, as: { kind: 'same' } }));
      check();
      await settle();
    } catch (thrown) {
      const brought = points.map(({ manifest }) => manifest.snapshotId).filter((id) => !before.has(id));
      await removePoints(vault, brought);
      throw thrown;
    }
  }

  return { handOver: alone(handOver), arrive: alone(arrive) };
}

function recordOf({ sandboxId, template, head, points, move }: ArchiveIndex, order: ArriveOrder): SandboxRecord {
  if (move === undefined)
    throw new AppError('bad_request', 'The archive was made as a copy: it can be imported as one.');
  if (sandboxId !== order.sandboxId) {
    throw new AppError('bad_request', `The archive is one of ${sandboxId} and not of ${order.sandboxId}.`);
  }
  const last = points.find(({ manifest }) => manifest.snapshotId === head);
  if (last === undefined) throw new Error('the head of an index is one of its points');
  const { size } = last.manifest;
  const { epoch } = order;
  return { format: MANIFEST_FORMAT, sandboxId, epoch, generation: move.generation, size, template, head, life: null };
}

/** What resists is found by the collector: no record tells of it. */
async function removePoints(vault: Vault, ids: readonly SnapshotId[]): Promise<void> {
  for (const id of ids) await vault.deletePoint(id).catch(() => undefined);
}
