/** The archives of fake nodes: one place, in memory, that several nodes may share. */
import { createHash } from 'node:crypto';
import {
  AppError,
  type ArchiveListing,
  type ArchiveSource,
  type ArchiveSummary,
  DEFAULT_SIZE,
  type Digest,
  type ExportEvent,
  type ExportOrder,
  formatArchiveRef,
  type HandOverOrder,
  type ProjectId,
  parseArchiveRef,
  type SandboxId,
  type SealedSource,
  type SnapshotId,
  type WrappedArchiveKey,
} from '@space/core';
import type { FakeGuestState } from './fake-node-guest.ts';

export const FAKE_ARCHIVES = 'default';

export interface ArchivedFakePoint {
  readonly id: SnapshotId;
  readonly guest: FakeGuestState;
  readonly parent: SnapshotId | null;
}

type Written = ExportOrder | HandOverOrder;

interface FakeArchived {
  readonly order: Written;
  readonly points: readonly ArchivedFakePoint[];
  /** Of one that is encrypted. */
  readonly key?: string;
}

export class FakeNodeArchives {
  readonly #archives = new Map<string, FakeArchived>();
  readonly #claims = new Map<string, string>();
  #nonce = 0;
  /** What a machine that imports lacks. */
  unfit: string | null = null;
  /** Somebody exports or imports. */
  inUse = false;
  collections = 0;
  /** Whose bytes were changed. */
  readonly damaged = new Set<string>();

  /** The name of the archive follows from what is in it. */
  write(order: ExportOrder, points: readonly ArchivedFakePoint[]): ExportEvent {
    const archive = this.nameOf(order, points);
    this.put(archive, { order, points });
    return { kind: 'done', archive, readBytes: 1000, sentBytes: 100 };
  }

  nameOf(order: Written, points: readonly ArchivedFakePoint[]): string {
    // No two moves have one name.
    const nonce = 'move' in order ? this.#nonce++ : null;
    const digest = createHash('sha256')
      .update(JSON.stringify([{ ...order, seal: null }, points, nonce]))
      .digest('hex') as Digest;
    return formatArchiveRef({ space: order.projectId, sandboxId: order.sandboxId, digest });
  }

  put(archive: string, { order, points }: FakeArchived): void {
    const { seal } = order;
    this.#archives.set(archive, { order, points, ...(seal === undefined ? {} : { key: taken(seal.key) }) });
  }

  /** With which it is encrypted; null: it is not. */
  keyOf(source: ArchiveSource): WrappedArchiveKey | null {
    return this.#find(source).order.seal?.wrapped ?? null;
  }

  /** What it was made by. */
  orderOf(archive: string): Written | undefined {
    return this.#archives.get(archive)?.order;
  }

  list(projectId: ProjectId, sandboxId: SandboxId | null): readonly ArchiveListing[] {
    const own = [...this.#archives].filter(([, { order }]) => {
      return order.projectId === projectId && (sandboxId === null || order.sandboxId === sandboxId);
    });
    return own.map(([archive, { order, points }]) => {
      const at = new Date(0).toISOString();
      const isMove = 'move' in order;
      return {
        archive,
        sandboxId: order.sandboxId,
        madeAt: at,
        takenAt: at,
        points: points.length,
        isMove,
        fault: null,
      };
    });
  }

  remove(archive: string): void {
    this.#archives.delete(archive);
  }

  has(archive: string): boolean {
    return this.#archives.has(archive);
  }

  /** The first has it. Throws `move_taken`. */
  claim(archive: string, by: string): void {
    const claimant = this.#claims.get(archive) ?? by;
    this.#claims.set(archive, claimant);
    if (claimant !== by) throw new AppError('move_taken', 'The move was taken up by another installation, or undone.');
  }

  read({ key, ...source }: SealedSource): FakeArchived {
    const found = this.#find(source);
    const given = key === undefined ? undefined : taken(key);
    if (found.key !== undefined && given !== found.key) {
      throw new AppError('vault_key_wrong', `${source.archive} does not open by that key.`);
    }
    return found;
  }

  #find({ location, archive }: ArchiveSource): FakeArchived {
    checkLocation(location);
    if (parseArchiveRef(archive) === undefined) throw new AppError('bad_request', 'That is no name of an archive.');
    const found = this.#archives.get(archive);
    if (found === undefined) throw new AppError('not_found', `There is no archive ${archive}.`);
    if (this.damaged.has(archive)) throw new AppError('archive_damaged', `${archive} was changed.`);
    return found;
  }

  summary(source: SealedSource): ArchiveSummary {
    const { order, points } = this.read(source);
    const places = new Map(points.map(({ id }, at) => [id, at]));
    return {
      sandboxId: order.sandboxId,
      template: order.template,
      madeAt: new Date(0).toISOString(),
      points: points.map(({ id, parent }, at) => ({
        snapshotId: id,
        generation: 1,
        kind: 'memory',
        parent: (parent === null ? undefined : places.get(parent)) ?? null,
        size: DEFAULT_SIZE,
        takenAt: new Date(1000 * at).toISOString(),
      })),
      head: points.length - 1,
      unfit: this.unfit,
      move: 'move' in order ? order.move : null,
    };
  }
}

/** As a node does: what it took over is overwritten where it was. */
function taken(key: Uint8Array): string {
  const text = Buffer.from(key).toString('hex');
  key.fill(0);
  return text;
}

export function checkLocation(location: string): void {
  if (location !== FAKE_ARCHIVES)
    throw new AppError('not_found', `There is no place for archives named "${location}".`);
}
