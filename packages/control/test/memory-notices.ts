/** Webhooks and their notices in memory, for tests. */
import type { ApprovalId, ErrorCode, OrganisationId } from '@space/core';
import type { RecordedApproval } from '../src/approval-records.ts';
import type { DueNotice, NoticeRecords, RecordedWebhook } from '../src/notice-records.ts';

interface Waiting {
  readonly organisationId: OrganisationId;
  readonly nextAt: Date;
  readonly tries: number;
}

type Told = Pick<RecordedApproval, 'id' | 'organisationId'>;

export class MemoryNotices implements NoticeRecords {
  readonly #turn: () => Promise<void>;
  readonly #find: (id: ApprovalId) => RecordedApproval | null;
  readonly #webhooks = new Map<OrganisationId, RecordedWebhook>();
  readonly #waiting = new Map<ApprovalId, Waiting>();

  constructor(turn: () => Promise<void>, find: (id: ApprovalId) => RecordedApproval | null) {
    this.#turn = turn;
    this.#find = find;
  }

  async setWebhook(organisationId: OrganisationId, url: string | null, setAt: Date) {
    await this.#turn();
    for (const [id, one] of this.#waiting) if (one.organisationId === organisationId) this.#waiting.delete(id);
    this.#webhooks.delete(organisationId);
    if (url !== null) this.#webhooks.set(organisationId, { organisationId, url, setAt, failure: null });
  }

  async findWebhook(organisationId: OrganisationId) {
    await this.#turn();
    return this.#webhooks.get(organisationId) ?? null;
  }

  async due(at: Date, limit: number) {
    await this.#turn();
    const due: DueNotice[] = [];
    const inOrder = [...this.#waiting].toSorted(([, a], [, b]) => a.nextAt.getTime() - b.nextAt.getTime());
    for (const [id, { organisationId, nextAt, tries }] of inOrder) {
      const [approval, webhook] = [this.#find(id), this.#webhooks.get(organisationId)];
      if (approval?.state !== 'pending' || webhook === undefined || nextAt > at || due.length >= limit) continue;
      due.push({ approval, url: webhook.url, tries });
    }
    return due;
  }

  async sent({ id, organisationId }: Told) {
    await this.#turn();
    this.#waiting.delete(id);
    this.#note(organisationId, null);
  }

  async failed(
    { id, organisationId }: Told,
    { code, at, nextAt }: { readonly code: ErrorCode; readonly at: Date; readonly nextAt: Date },
  ) {
    await this.#turn();
    const one = this.#waiting.get(id);
    if (one !== undefined) this.#waiting.set(id, { ...one, nextAt, tries: one.tries + 1 });
    this.#note(organisationId, { code, at });
  }

  /** In the turn that asks for it. */
  add({ id, organisationId, requestedAt }: RecordedApproval): void {
    if (!this.#webhooks.has(organisationId)) return;
    this.#waiting.set(id, { organisationId, nextAt: requestedAt, tries: 0 });
  }

  /** In the turn in which it ends to wait. */
  drop(id: ApprovalId): void {
    this.#waiting.delete(id);
  }

  #note(organisationId: OrganisationId, failure: RecordedWebhook['failure']): void {
    const webhook = this.#webhooks.get(organisationId);
    if (webhook !== undefined) this.#webhooks.set(organisationId, { ...webhook, failure });
  }
}
