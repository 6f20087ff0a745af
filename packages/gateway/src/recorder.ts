/**
 * What has left or was refused, one record for each request and for each connection of which nothing could be read: kept
 * until somebody has taken it, up to a number. Beyond it, the oldest go of who has the most: of the organisation first, then
 * of its sandboxes, so that one that is loud makes nobody else's disappear. What was lost is counted in the next record of
 * its sandbox.
 */
import type { EgressPosition, EgressRecord, EgressRecords, OrganisationId, SandboxId } from '@space/core';
import type { Spool, Spooled } from './spool.ts';

const MAX_KEPT = 20_000;
const MAX_TAKEN = 1_000;
/** Who has the most is looked for once for so many. */
const LOST_AT_ONCE = 100;

export type NewRecord = Omit<EgressRecord, 'lostBefore'>;

interface Kept {
  readonly number: number;
  readonly organisationId: OrganisationId | null;
  record: EgressRecord;
  isLost: boolean;
}

interface Own {
  /** Null: no rules were loaded that would say. */
  organisationId: OrganisationId | null;
  /** In their order. */
  readonly kept: Kept[];
  /** Of which no record is kept that could say it. */
  lost: number;
}

export class Recorder {
  #next: number;
  #taken = 0;
  #count = 0;
  /** In their order; those that were lost lie among them for a while. */
  #all: Kept[] = [];
  readonly #own = new Map<SandboxId, Own>();
  readonly #spool: Spool;

  constructor(spool: Spool) {
    this.#spool = spool;
    this.#taken = spool.taken;
    this.#next = spool.next;
    for (const one of spool.left) this.#keep(one);
  }

  add(record: NewRecord, organisationId: OrganisationId | null): void {
    const lostBefore = this.#own.get(record.sandboxId)?.lost ?? 0;
    const one = { number: this.#next++, organisationId, record: { ...record, lostBefore } };
    this.#spool.add(one);
    this.#keep(one);
  }

  #keep(one: Spooled): void {
    const { organisationId, record } = one;
    const { sandboxId } = record;
    const own = this.#own.get(sandboxId) ?? { organisationId, kept: [], lost: 0 };
    this.#own.set(sandboxId, own);
    own.organisationId = organisationId ?? own.organisationId;
    const kept: Kept = { ...one, isLost: false };
    own.lost = 0;
    own.kept.push(kept);
    this.#all.push(kept);
    if (++this.#count > MAX_KEPT) this.#lose();
  }

  /** Those behind a position that an earlier answer gave; what lies before it has been taken, and is forgotten. */
  take(behind: EgressPosition | null): EgressRecords {
    const { stream: instance, earlier } = this.#spool;
    const isOurs = behind?.instance === instance || (behind !== null && behind.instance === earlier);
    this.#forget(isOurs ? behind.next : this.#taken);
    const taken: Kept[] = [];
    for (const one of this.#all) {
      if (taken.length === MAX_TAKEN) break;
      if (!one.isLost) taken.push(one);
    }
    return { instance, records: taken.map(({ record }) => record), next: taken.at(-1)?.number ?? this.#taken };
  }

  #forget(after: number): void {
    const index = this.#all.findIndex(({ number }) => number > after);
    const gone = this.#all.splice(0, index < 0 ? this.#all.length : index);
    this.#taken = gone.at(-1)?.number ?? this.#taken;
    this.#spool.shrink(this.#taken, () => this.#present());
    const counts = new Map<SandboxId, number>();
    for (const { record, isLost } of gone) {
      if (!isLost) counts.set(record.sandboxId, (counts.get(record.sandboxId) ?? 0) + 1);
    }
    for (const [sandboxId, count] of counts) {
      const own = this.#own.get(sandboxId);
      // They are its oldest.
      own?.kept.splice(0, count);
      this.#count -= count;
      if (own?.kept.length === 0 && own.lost === 0) this.#own.delete(sandboxId);
    }
  }

  #present(): readonly Spooled[] {
    const present = this.#all.filter(({ isLost }) => !isLost);
    return present.map(({ number, organisationId, record }) => ({ number, organisationId, record }));
  }

  #lose(): void {
    const own = this.#loudest();
    const gone = own?.kept.splice(0, Math.min(LOST_AT_ONCE, Math.ceil(own.kept.length / 2))) ?? [];
    if (own === undefined) return;
    for (const one of gone) {
      one.isLost = true;
      own.lost += 1 + one.record.lostBefore;
    }
    this.#count -= gone.length;
    const [next] = own.kept;
    if (next !== undefined) {
      next.record = { ...next.record, lostBefore: next.record.lostBefore + own.lost };
      own.lost = 0;
    }
    if (this.#all.length > 2 * MAX_KEPT) this.#all = this.#all.filter(({ isLost }) => !isLost);
  }

  #loudest(): Own | undefined {
    const counts = new Map<OrganisationId | null, number>();
    for (const { organisationId, kept } of this.#own.values()) {
      counts.set(organisationId, (counts.get(organisationId) ?? 0) + kept.length);
    }
    const most = Math.max(...counts.values());
    let loudest: Own | undefined;
    for (const own of this.#own.values()) {
      if (counts.get(own.organisationId) !== most) continue;
      if (loudest === undefined || isLouder(own, loudest)) loudest = own;
    }
    return loudest;
  }
}

/** Of two that have as many, the one whose oldest is older. */
function isLouder({ kept: own }: Own, { kept: others }: Own): boolean {
  if (own.length !== others.length) return own.length > others.length;
  return (own[0]?.number ?? 0) < (others[0]?.number ?? 0);
}
