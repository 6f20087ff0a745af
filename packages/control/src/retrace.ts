/**
 * What a call did whose process died before it kept the answer: found from the operations that it began, once they have
 * ended. Undefined when it did nothing, or when doing it again does no more than it did.
 */
import type { ForkResult, Input, RouteName } from '@space/contract';
import { AppError, asAppError, type SnapshotId } from '@space/core';
import type { GatedCaller } from './gated-caller.ts';
import type { ControlPorts } from './ports.ts';
import type { RecordedOperation, RecordedSandbox } from './records.ts';
import { showSandbox } from './recovery.ts';
import { viewSnapshot } from './views.ts';

type Retraced = Promise<{ readonly result: unknown } | undefined>;

export interface RetracerSteps {
  /** Ends an operation that no process carries out. */
  recover(orphan: RecordedSandbox): Promise<unknown>;
  /** Makes the copies of a fork that are missing. */
  forkMore(
    caller: GatedCaller,
    reference: string,
    from: SnapshotId,
    count: number,
    inheritSecrets: boolean,
  ): Promise<readonly ForkResult[]>;
}

/** The call that is repeated; what is still to be done is recorded as done by the request that began it. */
export interface RepeatedCall {
  readonly caller: GatedCaller;
  readonly input: unknown;
}

export class Retracer {
  readonly #ports: Pick<ControlPorts, 'records'>;
  readonly #steps: RetracerSteps;

  constructor(ports: Pick<ControlPorts, 'records'>, steps: RetracerSteps) {
    this.#ports = ports;
    this.#steps = steps;
  }

  async retrace(name: RouteName, call: RepeatedCall, begun: readonly RecordedOperation[]): Retraced {
    const operations = await Promise.all(begun.map((one) => this.#ended(one)));
    switch (name) {
      case 'createSandbox':
      case 'importSandbox':
        return this.#created(operations.findLast(({ kind }) => kind === 'create'));
      case 'forkSandbox':
        return this.#forked(
          call,
          operations.filter(({ kind }) => kind === 'create'),
        );
      case 'pauseSandbox':
      case 'resumeSandbox':
      case 'undoMove':
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
    if (sandbox?.operationId === operation.id) await this.#steps.recover(sandbox);
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

  /** What was made, and deleted by somebody since, is not made again. */
  async #created(operation: RecordedOperation | undefined): Retraced {
    if (operation === undefined || operation.outcome === 'failed') return undefined;
    const copy = await this.#copy(operation);
    if (copy === undefined) return undefined;
    if ('error' in copy) throw copy.error;
    return { result: copy.sandbox };
  }

  /** One that was interrupted may have moved or not: to do it again is right in both cases. */
  async #moved(operation: RecordedOperation | undefined): Retraced {
    if (operation?.outcome !== 'ok') return undefined;
    const sandbox = await this.#live(operation);
    return sandbox === undefined ? undefined : { result: await showSandbox(this.#ports.records, sandbox) };
  }

  /** Copies whose making broke off are made now, from the same point. */
  async #forked({ caller, input }: RepeatedCall, creates: readonly RecordedOperation[]): Retraced {
    const from = creates[0]?.input.from;
    if (from === undefined || from === 'crashed') return undefined;
    const told = (await Promise.all(creates.map((create) => this.#copy(create)))).filter((one) => one !== undefined);
    const { id, count, inheritSecrets } = input as Input<'forkSandbox'>;
    const missing = count - told.length;
    if (missing <= 0) return { result: told };
    try {
      return { result: [...told, ...(await this.#steps.forkMore(caller, id, from, missing, inheritSecrets === true))] };
    } catch (thrown) {
      // Nothing was made, so that the call has failed; or those that are missing have.
      if (told.length === 0) throw thrown;
      const error = asAppError(thrown);
      if (error.kind.retry !== 'never') throw error;
      return { result: [...told, ...Array.from({ length: missing }, () => ({ error }))] };
    }
  }

  /** What became of a copy; undefined: its making broke off or may be tried again, and nothing is left of it. */
  async #copy(create: RecordedOperation): Promise<ForkResult | undefined> {
    const { outcome, errorCode, sandboxId } = create;
    if (outcome === 'failed') {
      const error = new AppError(errorCode ?? 'internal', 'The copy could not be made.');
      return error.kind.retry === 'never' ? { error } : undefined;
    }
    const sandbox = await this.#live(create);
    if (sandbox !== undefined) return { sandbox: await showSandbox(this.#ports.records, sandbox) };
    const isDeleted = outcome !== 'interrupted' || (await this.#wasDeleted(create));
    if (isDeleted) return { error: new AppError('not_found', `${sandboxId} was made, and deleted since.`) };
    return undefined;
  }

  async #wasDeleted({ projectId, sandboxId }: RecordedOperation): Promise<boolean> {
    const { items } = await this.#ports.records.listOperations({ projectId, sandboxId, limit: 1 });
    return items[0]?.kind === 'delete';
  }

  async #taken(operation: RecordedOperation | undefined): Retraced {
    const id = operation?.input.takes;
    const snapshot = id === undefined ? null : await this.#ports.records.findSnapshot(id);
    return snapshot?.state === 'good' ? { result: viewSnapshot(snapshot) } : undefined;
  }

  async #rewound(operation: RecordedOperation | undefined): Retraced {
    if (operation?.outcome !== 'ok') return undefined;
    const sandbox = await this.#live(operation);
    if (sandbox === undefined) return undefined;
    const { takes } = operation.input;
    const kept = takes === undefined ? null : await this.#ports.records.findSnapshot(takes);
    return {
      result: {
        sandbox: await showSandbox(this.#ports.records, sandbox),
        kept: kept?.state === 'good' ? viewSnapshot(kept) : null,
      },
    };
  }
}
