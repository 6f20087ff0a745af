/** The audit in memory, for tests. */
import type { OperationId, OrganisationId } from '@space/core';
import type { AuditRecords, NewAuditRecord, RecordedAudit } from '../src/audit-records.ts';
import { paginate } from '../src/page.ts';
import type { PageRequest, RecordedOperation } from '../src/records.ts';

export class MemoryAudit implements AuditRecords {
  readonly #turn: () => Promise<void>;
  readonly #operationOf: (id: OperationId) => RecordedOperation | undefined;
  readonly #records = new Map<string, RecordedAudit>();

  constructor(turn: () => Promise<void>, operationOf: (id: OperationId) => RecordedOperation | undefined) {
    this.#turn = turn;
    this.#operationOf = operationOf;
  }

  async append(record: NewAuditRecord) {
    await this.#turn();
    this.put({ ...record, operationId: null });
  }

  /** In the turn of a change that it belongs to. */
  put(record: RecordedAudit): void {
    if (!this.#records.has(record.requestId)) this.#records.set(record.requestId, record);
  }

  async list(page: PageRequest & { readonly organisationId: OrganisationId }) {
    await this.#turn();
    const own = [...this.#records.values()].filter((one) => one.organisationId === page.organisationId);
    const rows = own.map((one) => ({ ...one, id: one.auditId, outcome: this.#outcomeOf(one) }));
    return paginate(rows, page, (one) => one.at);
  }

  async dropBefore(time: Date) {
    await this.#turn();
    for (const [key, { at }] of this.#records) if (at < time) this.#records.delete(key);
  }

  #outcomeOf({ operationId, outcome }: RecordedAudit): RecordedAudit['outcome'] {
    if (operationId === null) return outcome;
    const operation = this.#operationOf(operationId);
    return operation?.outcome === 'failed' ? (operation.errorCode ?? 'internal') : (operation?.outcome ?? 'running');
  }
}
