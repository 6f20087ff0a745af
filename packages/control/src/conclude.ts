/**
 * How an operation ends when nobody can say what it did: its effect failed, or its process died. The node is asked what is
 * real, and each thing that the operation had planned either took effect, and is recorded so, or did not, and is removed.
 */
import { AppError, asAppError, hasVm, type InspectedSandbox, type NodePort, type SnapshotId } from '@space/core';
import { recordsOfArrival } from './arrivals.ts';
import type { ControlPorts } from './ports.ts';
import type { OperationInput, RecordedSandbox, RecordedSnapshot, SandboxChanges, StartTimings } from './records.ts';
import { retryUnavailable } from './retry.ts';
import { isShut } from './vaults.ts';

export interface Conclusion {
  readonly changes: SandboxChanges;
  readonly points: readonly RecordedSnapshot[];
  readonly dropped: readonly SnapshotId[];
  /** Of the microVM that it started. */
  readonly timings?: StartTimings;
  readonly doomed: readonly SnapshotId[];
  /** Whether it is known to have done what was asked, whatever was said of it: its answer was lost. */
  readonly tookPlace?: boolean;
}

export interface Succeeded<T> extends Conclusion {
  readonly result: T;
}

export const NOTHING: Conclusion = { changes: {}, points: [], dropped: [], doomed: [] };

export function succeeded<T>(result: T, conclusion: Partial<Conclusion> = {}): Succeeded<T> {
  return { ...NOTHING, ...conclusion, result };
}

/** What a node says of a sandbox that it does not hold. */
export function absentSandbox({ vault, id, epoch }: RecordedSandbox): InspectedSandbox {
  return { vault, sandboxId: id, real: 'absent', epoch, generation: 0, head: null, life: null };
}

/** What is real, as far as the node can be asked. A sandbox that it does not hold is `absent`. Throws `vault_closed`, and then nobody knows. */
export async function inspectReal(node: NodePort, sandbox: RecordedSandbox): Promise<InspectedSandbox> {
  try {
    return await retryUnavailable(() => node.inspect(sandbox.vault, sandbox.id));
  } catch (thrown) {
    if (thrown instanceof AppError && thrown.code === 'not_found') return absentSandbox(sandbox);
    throw thrown;
  }
}

/**
 * What is real once an operation has ended here. Where its vault is closed and cannot be opened, or its order was refused for that, what
 * is recorded of it stands: nothing runs in such a vault.
 */
export async function inspectEnded(
  node: NodePort,
  sandbox: RecordedSandbox,
  failure: AppError | null,
): Promise<InspectedSandbox> {
  try {
    return await inspectReal(node, sandbox);
  } catch (thrown) {
    // One that is only being closed may be open again in a moment, with all that runs in it.
    const cannotOpen = isShut(thrown) && asAppError(thrown).code !== 'vault_closed';
    if (!cannotOpen && !(isShut(thrown) && isShut(failure))) throw thrown;
    const { settled, head, generation } = sandbox;
    const real = settled === 'deleted' ? 'absent' : hasVm(settled) ? 'crashed' : settled;
    return { ...absentSandbox(sandbox), real, head, generation };
  }
}

export async function concludeUnknown(
  ports: ControlPorts,
  begun: RecordedSandbox,
  input: OperationInput,
  inspected: InspectedSandbox,
): Promise<Conclusion> {
  switch (begun.operation) {
    case 'create':
      return concludeCreate(ports, begun);
    case 'move':
      return concludeLeft(input, inspected);
    case 'arrive':
      return concludeArrival(ports, begun, input, inspected);
    case 'resume':
    case 'rewind':
    case 'pause':
    case 'snapshot':
    case 'fork':
      return concludeMove(ports, begun, input, inspected);
    default:
      return NOTHING;
  }
}

/** A create that failed leaves nothing on the node; what could not be removed now, the reconciler removes. */
async function concludeCreate({ node, logger }: ControlPorts, begun: RecordedSandbox): Promise<Conclusion> {
  await node
    .destroy({ vault: begun.vault, sandboxId: begun.id, epoch: begun.epoch, points: [] })
    .catch((err: unknown) => logger.warn({ sandboxId: begun.id, err }, 'a failed create was not cleaned up yet'));
  return NOTHING;
}

/** Whether its index is there is not known: who moves it again is told the archive, or gets another one. */
function concludeLeft({ move }: OperationInput, { real, moved }: InspectedSandbox): Conclusion {
  if (real !== 'moved' || moved === undefined || move === undefined) return NOTHING;
  return { ...NOTHING, changes: { moved, moves: move } };
}

/** The node records it as paused when all is here and it is ours; before, there is nothing of it that counts. */
async function concludeArrival(
  { node, records }: ControlPorts,
  begun: RecordedSandbox,
  { move, source }: OperationInput,
  { real, head, generation }: InspectedSandbox,
): Promise<Conclusion> {
  if (real !== 'paused' || move === undefined || source === undefined) return NOTHING;
  const isUndone = begun.moved?.archive === source.archive;
  const points = isUndone ? [] : await recordsOfArrival(records, begun, await node.readArchive(source));
  return { ...NOTHING, changes: { head, generation, moves: move, moved: null }, points, tookPlace: true };
}

async function concludeMove(
  { records, node, logger }: ControlPorts,
  begun: RecordedSandbox,
  input: OperationInput,
  inspected: InspectedSandbox,
): Promise<Conclusion> {
  const { from, takes } = input;
  const switched = input.generation !== undefined && inspected.generation === input.generation;
  const startedFrom = hasVm(inspected.real) && from !== undefined && from !== 'crashed' && inspected.head === from;
  const durable = takes !== undefined && inspected.head === takes;
  const changes: SandboxChanges = {
    ...(switched ? { generation: input.generation } : {}),
    ...(startedFrom ? { head: from } : {}),
    ...(durable ? { head: takes } : {}),
  };
  const tookPlace = wasDone(begun, { switched, startedFrom, durable });
  if (takes === undefined) return { ...NOTHING, changes, tookPlace };
  const taken = await records.findSnapshot(takes);
  // A point becomes the head once it is durable; a rewind keeps the present, and then its target becomes the head.
  if (taken !== null && (durable || (begun.operation === 'rewind' && switched))) {
    return { ...NOTHING, changes, points: [{ ...taken, state: 'good' }], tookPlace };
  }
  try {
    await node.deletePoint(begun.vault, takes);
    return { ...NOTHING, changes, dropped: [takes] };
  } catch (err) {
    logger.warn({ sandboxId: begun.id, snapshotId: takes, err }, 'a point that was not completed was not removed yet');
    return { ...NOTHING, changes, doomed: [takes] };
  }
}

function wasDone(
  { operation, settled }: RecordedSandbox,
  real: { readonly switched: boolean; readonly startedFrom: boolean; readonly durable: boolean },
): boolean {
  switch (operation) {
    case 'resume':
      return real.startedFrom || (settled === 'crashed' && real.switched);
    case 'rewind':
      return real.switched;
    default:
      return real.durable;
  }
}
