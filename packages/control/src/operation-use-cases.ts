/** The use-cases on what was done: operations, and the audit. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AuditList, Caller, Input, Operation, OperationList } from '@space/contract';
import { AppError } from '@space/core';
import type { ControlPorts } from './ports.ts';
import type { RecordedOperation } from './records.ts';
import { findOperation } from './scope.ts';
import { viewAudit, viewOperation } from './views.ts';

/** Between two looks of somebody who waits: another process may carry the operation out. */
const LOOK_EVERY_MS = 100;

export class OperationUseCases {
  readonly #ports: ControlPorts;

  constructor(ports: ControlPorts) {
    this.#ports = ports;
  }

  async listOperations({ projectId }: Caller, input: Input<'listOperations'>): Promise<OperationList> {
    const { sandbox: sandboxId, request: requestId, ...page } = input;
    const { items, next } = await this.#ports.records.listOperations({
      ...page,
      projectId,
      ...(sandboxId === undefined ? {} : { sandboxId }),
      ...(requestId === undefined ? {} : { requestId }),
    });
    return { operations: items.map(viewOperation), nextCursor: next };
  }

  async listAudit({ principal }: Caller, input: Input<'listAudit'>): Promise<AuditList> {
    const { organisationId } = principal;
    const { items, next } = await this.#ports.records.audit.list({ ...input, organisationId });
    return { records: items.map(viewAudit), nextCursor: next };
  }

  async getOperation({ projectId, signal }: Caller, { id, wait }: Input<'getOperation'>): Promise<Operation> {
    const { records, clock } = this.#ports;
    const until = clock.monotonicMs() + wait * 1000;
    for (;;) {
      const found: RecordedOperation = await findOperation(records, projectId, id);
      const leftMs = until - clock.monotonicMs();
      if (found.endedAt !== null || leftMs <= 0) return viewOperation(found);
      await sleep(Math.min(LOOK_EVERY_MS, leftMs), undefined, { signal }).catch((thrown: unknown) => {
        signal.throwIfAborted();
        throw new AppError('internal', 'The wait broke off.', { cause: thrown });
      });
    }
  }
}
