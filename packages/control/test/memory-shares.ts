/** Shares in memory, for tests. */
import { AppError, type SandboxId, type ShareId } from '@space/core';
import { eventOfShare, type NewEvent } from '../src/event-records.ts';
import type { RecordedShare, ShareRecords } from '../src/share-records.ts';

export class MemoryShares implements ShareRecords {
  readonly #turn: () => Promise<void>;
  readonly #isLive: (id: SandboxId) => boolean;
  readonly #tell: (event: NewEvent) => void;
  readonly #shares = new Map<ShareId, RecordedShare>();

  constructor(turn: () => Promise<void>, isLive: (id: SandboxId) => boolean, tell: (event: NewEvent) => void) {
    this.#turn = turn;
    this.#isLive = isLive;
    this.#tell = tell;
  }

  async add(share: RecordedShare, max: number) {
    await this.#turn();
    const { sandboxId } = share;
    if (!this.#isLive(sandboxId)) throw new AppError('not_found', `There is no sandbox "${sandboxId}".`);
    if (this.#good(sandboxId, share.createdAt).length >= max) {
      throw new AppError('limit_reached', { detail: `A sandbox may have ${max} shares.`, facts: { max } });
    }
    this.#shares.set(share.id, share);
    this.#tell(eventOfShare('share.created', share, share.createdAt));
  }

  async list(sandboxId: SandboxId, now: Date) {
    await this.#turn();
    const order = (a: RecordedShare, b: RecordedShare) =>
      a.createdAt.getTime() - b.createdAt.getTime() || (a.id < b.id ? -1 : 1);
    return this.#good(sandboxId, now).toSorted(order);
  }

  async findByDigest(sha256: Uint8Array) {
    await this.#turn();
    return [...this.#shares.values()].find((share) => Buffer.from(share.sha256).equals(sha256)) ?? null;
  }

  async remove(sandboxId: SandboxId, id: ShareId, at: Date) {
    await this.#turn();
    const share = this.#shares.get(id);
    if (share?.sandboxId !== sandboxId) return false;
    this.#shares.delete(id);
    this.#tell(eventOfShare('share.revoked', share, at));
    return true;
  }

  async endedAmong(ids: readonly ShareId[], now: Date) {
    await this.#turn();
    return ids.filter((id) => (this.#shares.get(id)?.expiresAt ?? now) <= now);
  }

  async dropExpired(now: Date) {
    await this.#turn();
    for (const { id, expiresAt } of this.#shares.values()) if (expiresAt <= now) this.#shares.delete(id);
  }

  /** In the turn of the delete that it belongs to. */
  dropOf(sandboxId: SandboxId): void {
    for (const share of this.#shares.values()) if (share.sandboxId === sandboxId) this.#shares.delete(share.id);
  }

  #good(sandboxId: SandboxId, now: Date): RecordedShare[] {
    return [...this.#shares.values()].filter((share) => share.sandboxId === sandboxId && share.expiresAt > now);
  }
}
