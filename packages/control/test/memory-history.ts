/** History in memory, for tests, over the maps of the records that it belongs to. */

import type { ErrorCode, ProjectId, SandboxId, SnapshotId, VaultName } from '@space/core';
import { eventOfArchiving, eventOfDamage, eventOfSkip, type NewEvent } from '../src/event-records.ts';
import type { DoomedAmong, DoomedPoint, HistoryRecords, RecordedSkip } from '../src/history-records.ts';
import type { Archiving, RecordedOperation, RecordedSandbox, RecordedSnapshot } from '../src/records.ts';

interface Whole {
  readonly sandboxes: Map<string, RecordedSandbox>;
  readonly snapshots: Map<string, RecordedSnapshot>;
  readonly operations: Map<string, RecordedOperation>;
  turn(): Promise<void>;
  drop(id: SnapshotId, at: Date, because?: ErrorCode): void;
  tell(events: readonly NewEvent[]): void;
}

export class MemoryHistory implements HistoryRecords {
  readonly #whole: Whole;
  readonly #doomed = new Map<SnapshotId, DoomedPoint & { readonly notBefore: Date }>();
  readonly #skips: (RecordedSkip & { readonly sandboxId: SandboxId })[] = [];

  constructor(whole: Whole) {
    this.#whole = whole;
  }

  async newest(sandboxId: SandboxId) {
    await this.#whole.turn();
    return this.#last(sandboxId, () => true);
  }

  async tip(sandboxId: SandboxId, generation: number) {
    await this.#whole.turn();
    return this.#last(sandboxId, (one) => one.state === 'good' && one.generation === generation);
  }

  async aging(sandboxId: SandboxId) {
    await this.#whole.turn();
    const own = [...this.#whole.snapshots.values()].filter((one) => one.sandboxId === sandboxId);
    return own.toSorted((a, b) => a.timeMs - b.timeMs);
  }

  async newestAt(sandboxId: SandboxId, at: Date) {
    await this.#whole.turn();
    const past = [...this.#whole.snapshots.values()].filter(
      (one) => one.sandboxId === sandboxId && one.state === 'good' && one.takenAt <= at,
    );
    return past.toSorted((a, b) => a.takenAt.getTime() - b.takenAt.getTime() || a.timeMs - b.timeMs).at(-1) ?? null;
  }

  async doom(ids: readonly SnapshotId[], at: Date, because?: ErrorCode) {
    await this.#whole.turn();
    this.put(ids, at, because);
  }

  /** In the turn of the change that it belongs to. */
  put(ids: readonly SnapshotId[], at: Date, because?: ErrorCode): void {
    for (const id of ids) {
      const snapshot = this.#whole.snapshots.get(id);
      if (snapshot === undefined) continue;
      this.#doomed.set(id, { id, vault: snapshot.vault, attempts: 0, notBefore: at });
      this.#whole.drop(id, at, because);
    }
  }

  async doomUnknown(vault: VaultName, id: SnapshotId, at: Date) {
    await this.#whole.turn();
    if (!this.#doomed.has(id)) this.#doomed.set(id, { id, vault, attempts: 0, notBefore: at });
  }

  async doomed(limit: number, now: Date, { except = [], among }: DoomedAmong = {}) {
    await this.#whole.turn();
    const due = [...this.#doomed.values()].filter(({ id, notBefore }) => notBefore <= now && !except.includes(id));
    const wanted = due.filter(({ vault }) => among?.includes(vault) !== false);
    return wanted.slice(0, limit).map(({ notBefore: _, ...point }) => point);
  }

  async removed(id: SnapshotId) {
    await this.#whole.turn();
    this.#doomed.delete(id);
  }

  async resisted(id: SnapshotId, again: Date) {
    await this.#whole.turn();
    const now = this.#doomed.get(id);
    if (now !== undefined) this.#doomed.set(id, { ...now, attempts: now.attempts + 1, notBefore: again });
  }

  async known(ids: readonly SnapshotId[]) {
    await this.#whole.turn();
    return new Set(ids.filter((id) => this.#whole.snapshots.has(id) || this.#doomed.has(id)));
  }

  async abandoned(before: Date, limit: number) {
    await this.#whole.turn();
    const left = [...this.#whole.snapshots.values()].filter(
      (one) =>
        one.state === 'taking' && one.takenAt < before && this.#whole.sandboxes.get(one.sandboxId)?.operation === null,
    );
    return left.slice(0, limit).map(({ id }) => id);
  }

  async unchecked(before: Date, limit: number, among?: readonly VaultName[]) {
    await this.#whole.turn();
    const last = ({ checkedAt, takenAt }: RecordedSnapshot) => (checkedAt ?? takenAt).getTime();
    const due = [...this.#whole.snapshots.values()].filter(
      (one) => one.state === 'good' && last(one) < before.getTime() && among?.includes(one.vault) !== false,
    );
    return due.toSorted((a, b) => last(a) - last(b)).slice(0, limit);
  }

  async checked(id: SnapshotId, checkedAt: Date) {
    await this.#whole.turn();
    const snapshot = this.#whole.snapshots.get(id);
    if (snapshot !== undefined) this.#whole.snapshots.set(id, { ...snapshot, checkedAt });
  }

  async spoilt(id: SnapshotId, badReason: string, at: Date) {
    await this.#whole.turn();
    const snapshot = this.#whole.snapshots.get(id);
    if (snapshot?.state !== 'good') return;
    this.#whole.snapshots.set(id, { ...snapshot, state: 'bad', badReason });
    this.#whole.tell([eventOfDamage(snapshot, at)]);
  }

  async noteArchiving(sandbox: Pick<RecordedSandbox, 'id' | 'projectId'>, archiving: Archiving, at: Date) {
    await this.#whole.turn();
    const now = this.#whole.sandboxes.get(sandbox.id);
    if (now === undefined || now.settled === 'deleted') return;
    this.#whole.sandboxes.set(now.id, { ...now, archiving });
    this.#whole.tell([eventOfArchiving(sandbox, archiving, at)]);
  }

  async noteSkip(sandbox: Pick<RecordedSandbox, 'id' | 'projectId'>, skip: RecordedSkip) {
    await this.#whole.turn();
    this.#whole.tell([eventOfSkip(sandbox, skip)]);
    this.#skips.unshift({ ...skip, sandboxId: sandbox.id });
  }

  async skips(
    { id }: Pick<RecordedSandbox, 'id'>,
    { after, until }: { readonly after: Date | null; readonly until: Date | null },
    limit: number,
  ) {
    await this.#whole.turn();
    const own = this.#skips.filter(
      (one) => one.sandboxId === id && (after === null || one.at > after) && (until === null || one.at <= until),
    );
    return own.slice(0, limit).map(({ at, code }) => ({ at, code }));
  }

  async forksFrom(projectId: ProjectId, ids: readonly SnapshotId[]) {
    await this.#whole.turn();
    return [...this.#whole.sandboxes.values()].flatMap(({ id, name, origin, settled, projectId: of }) =>
      origin !== null && ids.includes(origin) && settled !== 'deleted' && of === projectId
        ? [{ sandboxId: id, name, from: origin }]
        : [],
    );
  }

  async dropUnasked(before: Date) {
    await this.#whole.turn();
    for (const [id, { by, endedAt }] of this.#whole.operations) {
      if (by === null && endedAt !== null && endedAt < before) this.#whole.operations.delete(id);
    }
  }

  #last(sandboxId: SandboxId, isMeant: (one: RecordedSnapshot) => boolean): RecordedSnapshot | null {
    const own = [...this.#whole.snapshots.values()].filter((one) => one.sandboxId === sandboxId && isMeant(one));
    return own.toSorted((a, b) => a.timeMs - b.timeMs).at(-1) ?? null;
  }
}
