/** The audit in memory, for tests. */
import type { AuditId, OperationId, OrganisationId } from '@space/core';
import type { AuditOutcome, AuditRecords, NewAuditRecord, RecordedAudit } from '../src/audit-records.ts';
import { paginate } from '../src/page.ts';
import type { PageRequest, RecordedOperation } from '../src/records.ts';

export class MemoryAudit implements AuditRecords {
  readonly #turn: () => Promise<void>;
  readonly #operationOf: (id: OperationId) => RecordedOperation | undefined;
  readonly #records = new Map<string, RecordedAudit>();
  readonly #links = new Map<AuditId, number>();

  constructor(turn: () => Promise<void>, operationOf: (id: OperationId) => RecordedOperation | undefined) {
    this.#turn = turn;
    this.#operationOf = operationOf;
  }

  async append(record: NewAuditRecord) {
    await this.#turn();
    const { outcome } = record;
    if (!this.#records.has(record.requestId)) {
      this.#records.set(record.requestId, { ...record, outcome: outcome ?? 'running', operationId: null });
    }
  }

  async complete(id: AuditId, { target, outcome }: { target: string | null; outcome: AuditOutcome }) {
    await this.#turn();
    for (const [key, record] of this.#records) {
      if (record.auditId !== id || record.operationId !== null) continue;
      this.#records.set(key, { ...record, target: record.target ?? target, outcome });
    }
  }

  async closeLeft(before: Date, underWay: readonly AuditId[]) {
    await this.#turn();
    for (const [key, record] of this.#records) {
      if (!isOpen(record) || record.at >= before || underWay.includes(record.auditId)) continue;
      this.#records.set(key, { ...record, outcome: 'unknown' });
    }
  }

  /** In the turn of the operation that the call begins. */
  put(record: RecordedAudit): void {
    const begun = this.#records.get(record.requestId);
    if (begun === undefined) this.#records.set(record.requestId, record);
    else if (isOpen(begun)) this.#records.set(record.requestId, { ...record, auditId: begun.auditId, at: begun.at });
  }

  async list(page: PageRequest & { readonly organisationId: OrganisationId }) {
    await this.#turn();
    const own = [...this.#records.values()].filter((one) => one.organisationId === page.organisationId);
    const rows = own.map((one) => ({ ...one, id: one.auditId, outcome: this.#outcomeOf(one) }));
    return paginate(rows, page, (one) => one.at);
  }

  /** Those that will not change any more, and are not linked yet. */
  ended(): readonly RecordedAudit[] {
    const rows = [...this.#records.values()].map((one) => ({ ...one, outcome: this.#outcomeOf(one) }));
    const open = rows.filter((one) => one.outcome !== 'running' && !this.#links.has(one.auditId));
    return open.sort((a, b) => a.at.getTime() - b.at.getTime() || (a.auditId < b.auditId ? -1 : 1));
  }

  linked({ auditId }: RecordedAudit, number: number): void {
    this.#links.set(auditId, number);
  }

  unlinked(organisationId: OrganisationId): number {
    const own = [...this.#records.values()].filter((one) => one.organisationId === organisationId);
    return own.filter(({ auditId }) => !this.#links.has(auditId)).length;
  }

  dropLinked(organisationId: OrganisationId, upTo: number): void {
    for (const [key, one] of this.#records) {
      const number = one.organisationId === organisationId ? this.#links.get(one.auditId) : undefined;
      if (number !== undefined && number <= upTo) this.#records.delete(key);
    }
  }

  #outcomeOf({ operationId, outcome }: RecordedAudit): RecordedAudit['outcome'] {
    if (operationId === null) return outcome;
    const operation = this.#operationOf(operationId);
    return operation?.outcome === 'failed' ? (operation.errorCode ?? 'internal') : (operation?.outcome ?? 'running');
  }
}

function isOpen({ operationId, outcome }: RecordedAudit): boolean {
  return operationId === null && outcome === 'running';
}
