/**
 * What a call did whose process died before it kept the answer: found from the operations that it began, once they have
 * ended. Undefined when it did nothing, or when doing it again does no more than it did.
 */
import type { RouteName } from '@space/contract';
import { AppError } from '@space/core';
import type { ControlPorts } from './ports.ts';
import type { RecordedOperation, RecordedSandbox } from './records.ts';
import { viewSandbox, viewSnapshot } from './views.ts';

type Retraced = Promise<{ readonly result: unknown } | undefined>;

export class Retracer {
  readonly #ports: Pick<ControlPorts, 'records'>;
  readonly #recover: (orphan: RecordedSandbox) => Promise<unknown>;

  /** `recover` ends an operation that no process carries out. */
  constructor(ports: Pick<ControlPorts, 'records'>, recover: (orphan: RecordedSandbox) => Promise<unknown>) {
    this.#ports = ports;
    this.#recover = recover;
  }

  async retrace(name: RouteName, begun: readonly RecordedOperation[]): Retraced {
    const operations = await Promise.all(begun.map((one) => this.#ended(one)));
    switch (name) {
      case 'createSandbox':
        return this.#created(operations.at(-1));
      case 'forkSandbox':
        return this.#forked(operations.filter(({ kind }) => kind === 'create'));
      case 'pauseSandbox':
      case 'resumeSandbox':
        return this.#moved(operations.at(-1));
      case 'takeSnapshot':
        return this.#taken(operations.findLast(({ kind }) => kind === 'snapshot'));
      case 'rewindSandbox':
        return this.#rewound(operations.findLast(({ kind }) => kind === 'rewind'));
      case 'deleteSandbox':
        return operations.at(-1)?.outcome === 'failed' || operations.length === 0 ? undefined : { result: undefined };
      default:
        return undefined;
    }
  }

  async #ended(operation: RecordedOperation): Promise<RecordedOperation> {
    if (operation.endedAt !== null) return operation;
    const sandbox = await this.#ports.records.findSandbox(operation.sandboxId);
    if (sandbox?.operationId === operation.id) await this.#recover(sandbox);
    const now = await this.#ports.records.findOperation(operation.id);
    if (now !== null && now.endedAt !== null) return now;
    throw new AppError('operation_in_progress', {
      detail: `The ${operation.kind} that this call began has not ended yet.`,
      facts: { operation: operation.kind },
    });
  }

  async #live(operation: RecordedOperation | undefined): Promise<RecordedSandbox | undefined> {
    if (operation === undefined || operation.outcome === 'failed') return undefined;
    const sandbox = await this.#ports.records.findSandbox(operation.sandboxId);
    return sandbox === null || sandbox.settled === 'deleted' ? undefined : sandbox;
  }

  async #created(operation: RecordedOperation | undefined): Retraced {
    const sandbox = await this.#live(operation);
    return sandbox === undefined ? undefined : { result: viewSandbox(sandbox) };
  }

  /** One that was interrupted may have moved or not: to do it again is right in both cases. */
  async #moved(operation: RecordedOperation | undefined): Retraced {
    return operation?.outcome === 'ok' ? this.#created(operation) : undefined;
  }

  async #forked(creates: readonly RecordedOperation[]): Retraced {
    if (creates.length === 0) return undefined;
    const children = await Promise.all(creates.map((create) => this.#live(create)));
    if (children.every((child) => child === undefined)) return undefined;
    const failed = () => new AppError('restore_failed', 'The copy was interrupted and is gone.');
    return { result: children.map((child) => (child ? { sandbox: viewSandbox(child) } : { error: failed() })) };
  }

  async #taken(operation: RecordedOperation | undefined): Retraced {
    const id = operation?.input.takes;
    const snapshot = id === undefined ? null : await this.#ports.records.findSnapshot(id);
    return snapshot?.state === 'good' ? { result: viewSnapshot(snapshot) } : undefined;
  }

  async #rewound(operation: RecordedOperation | undefined): Retraced {
    const sandbox = await this.#live(operation);
    const generation = operation?.input.generation;
    if (operation === undefined || sandbox === undefined || generation === undefined) return undefined;
    if (sandbox.generation < generation) return undefined;
    const { takes } = operation.input;
    const kept = takes === undefined ? null : await this.#ports.records.findSnapshot(takes);
    return { result: { sandbox: viewSandbox(sandbox), kept: kept?.state === 'good' ? viewSnapshot(kept) : null } };
  }
}
