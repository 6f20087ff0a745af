/**
 * The lifecycle of a sandbox, as one table (two pure functions).
 *
 * A sandbox is always *settled* in one of six states, and at most one *operation* on it is in flight. What a user sees as
 * "pausing" is the pair (running, pause), so there is no state without an exit: when the operation ends, in whatever way,
 * the sandbox is settled in what the node found to be real.
 *
 * ```
 *            create            pause
 *   absent ─────────► running ◄──────► paused      rewind, snapshot, fork: running → running
 *                      │  ▲    resume    │          snapshot, fork: paused → paused
 *            life ends ▼  │ resume       │
 *                     crashed            │          delete: from everywhere, and it wins
 *                        └──► deleted ◄──┘       once begun, it is finished, however often it fails
 *
 *   running ◄────► out_of_space: the node stops its vCPUs before its vault is full, and lets it go on when there is room
 *
 *             move                      arrive: undoes the move, or brings it back by a later one;
 *   paused ─────────► moved ─────────► paused
 *                                       absent ─► paused   where it has not been, or is deleted by now
 * ```
 */
import type { ErrorCode } from './errors.ts';
import { unreachable } from './errors.ts';

export const SETTLED_STATES = ['absent', 'running', 'out_of_space', 'paused', 'crashed', 'moved', 'deleted'] as const;
/**
 * `absent`: recorded, its create or its arrival in flight, never at rest. `crashed`: its VM ended unasked; its points and its disk
 * stand. `moved`: it was handed over to whoever takes it up elsewhere, and never runs here but by an arrival.
 */
export type Settled = (typeof SETTLED_STATES)[number];

export const OPERATIONS = [
  'create',
  'resume',
  'pause',
  'rewind',
  'snapshot',
  'fork',
  'move',
  'arrive',
  'delete',
] as const;
export type Operation = (typeof OPERATIONS)[number];

export interface LifecycleState {
  readonly settled: Settled;
  readonly operation: Operation | null;
}

/** What users see. */
export type SandboxStatus =
  | 'creating'
  | 'running'
  | 'out_of_space'
  | 'pausing'
  | 'paused'
  | 'resuming'
  | 'rewinding'
  | 'crashed'
  | 'moving'
  | 'moved'
  | 'arriving'
  | 'deleting'
  | 'deleted';

/** What may be asked: an operation, or `use` (exec, files: needs a running VM and wakes it). */
export type Command = Operation | 'use';

export type Decision =
  /** Begin the operation; it fences whatever is in flight. */
  | { readonly kind: 'start'; readonly operation: Operation }
  /** The same operation is in flight: share its end. */
  | { readonly kind: 'join' }
  /** Another operation is in flight: wait for its end (bounded), then decide again. */
  | { readonly kind: 'wait' }
  /** It is already so. */
  | { readonly kind: 'done' }
  | { readonly kind: 'refuse'; readonly code: ErrorCode; readonly detail: string };

const start = (operation: Operation): Decision => ({ kind: 'start', operation });
const done: Decision = { kind: 'done' };
const refuse = (code: ErrorCode, detail: string): Decision => ({ kind: 'refuse', code, detail });

export function decide(state: LifecycleState, command: Command): Decision {
  if (state.settled === 'deleted') return command === 'delete' ? done : refuse('not_found', 'The sandbox is deleted.');
  if (command === 'delete') return state.operation === 'delete' ? { kind: 'join' } : start('delete');
  if (state.operation === 'delete') return refuse('not_found', 'The sandbox is being deleted.');
  if (state.operation !== null) return decideDuring(state.operation, state.settled, command);
  return decideAtRest(state.settled, command);
}

function decideDuring(operation: Operation, settled: Settled, command: Command): Decision {
  // A snapshot or fork of a running sandbox leaves it usable all along.
  if (command === 'use' && settled === 'running' && (operation === 'snapshot' || operation === 'fork')) return done;
  if (command === operation && (command === 'create' || command === 'resume' || command === 'pause')) {
    return { kind: 'join' };
  }
  // A use shares the failure of the start it waits for: ten callers of a broken wake are one attempt, not ten.
  if (command === 'use' && (operation === 'create' || operation === 'resume')) return { kind: 'join' };
  return { kind: 'wait' };
}

function decideAtRest(settled: Exclude<Settled, 'deleted'>, command: Exclude<Command, 'delete'>): Decision {
  if (settled === 'moved' && command !== 'move' && command !== 'arrive') {
    return refuse(
      'wrong_state',
      'The sandbox was moved: it lives where the move is imported, or here when that is undone.',
    );
  }
  switch (command) {
    case 'create':
      return settled === 'absent' ? start('create') : refuse('wrong_state', 'The sandbox exists already.');
    case 'resume':
    case 'use':
      if (settled === 'running') return done;
      // A crash loses the memory since the last point: only a person's resume may accept that, not a mere use.
      if (settled === 'crashed' && command === 'use') {
        return refuse('vm_lost', 'The microVM of the sandbox ended unexpectedly.');
      }
      // It goes on by itself; each of its callers trying in turn would be work for nothing.
      if (settled === 'out_of_space' && command === 'use') return refuseForSpace();
      return settled === 'absent' ? refuse('wrong_state', 'The sandbox never ran.') : start('resume');
    case 'pause':
      if (settled === 'paused') return done;
      if (settled === 'out_of_space') return refuseForSpace();
      return settled === 'running' ? start('pause') : refuse('wrong_state', `The sandbox is ${settled}, not running.`);
    case 'rewind':
      return settled === 'absent' ? refuse('wrong_state', 'The sandbox never ran.') : start('rewind');
    case 'snapshot':
    case 'fork':
      if (settled === 'running' || settled === 'paused') return start(command);
      if (settled === 'out_of_space') return refuseForSpace();
      return refuse('wrong_state', `The sandbox is ${settled}; it must be running or paused.`);
    case 'move':
      // Repeated, it tells what was done; or does it now, if it broke off.
      if (settled === 'paused' || settled === 'moved') return start('move');
      return refuse('wrong_state', `The sandbox is ${settled}; it must be paused.`);
    case 'arrive':
      if (settled === 'absent' || settled === 'moved') return start('arrive');
      return refuse('wrong_state', 'The sandbox is here already.');
    default:
      return unreachable(command);
  }
}

/** A point needs its processes to stand still first, and so to run a little longer. */
function refuseForSpace(): Decision {
  return refuse('out_of_space', 'The sandbox stands still since its vault is nearly full.');
}

/** Whether a VM is there: it holds memory, and may end unasked. */
export function hasVm(settled: Settled): boolean {
  return settled === 'running' || settled === 'out_of_space';
}

/** What the node found to be real after an operation ended, or when a VM ended by itself. */
export type Real = 'running' | 'out_of_space' | 'paused' | 'crashed' | 'moved' | 'absent';

export type LifecycleEvent =
  /** The operation in flight ended, well or not; `real` is what the node holds now. */
  | { readonly kind: 'ended'; readonly operation: Operation; readonly ok: boolean; readonly real: Real }
  /** The VM ended by itself. */
  | { readonly kind: 'life_ended' };

/** The state after an event. Events of a superseded operation change nothing: the caller fences them by epoch. */
export function react(state: LifecycleState, event: LifecycleEvent): LifecycleState {
  if (state.settled === 'deleted') return state;
  if (event.kind === 'life_ended') {
    return hasVm(state.settled) ? { ...state, settled: 'crashed' } : state;
  }
  if (event.operation !== state.operation) return state;
  // Others were told by now that it is gone: a delete that failed stays in flight until it is finished.
  if (event.operation === 'delete') return event.ok ? { settled: 'deleted', operation: null } : state;
  // A create that failed leaves nothing behind; its caller has the error.
  if (event.operation === 'create' && !event.ok) return { settled: 'deleted', operation: null };
  // An arrival that failed leaves nothing of it, and what was there before as it was.
  if (event.real === 'absent' && state.settled === 'moved') return { settled: 'moved', operation: null };
  if (event.real === 'absent' && event.operation === 'arrive') return { settled: 'deleted', operation: null };
  // Only what comes into being is `absent`. A sandbox that the node has lost is not gone: its points may stand, so it is
  // crashed, from which resume, rewind and delete lead out.
  return { settled: event.real === 'absent' ? 'crashed' : event.real, operation: null };
}

export function statusOf(state: LifecycleState): SandboxStatus {
  switch (state.operation) {
    case 'create':
      return 'creating';
    case 'resume':
      return 'resuming';
    case 'pause':
      return 'pausing';
    case 'rewind':
      return 'rewinding';
    case 'move':
      return 'moving';
    case 'arrive':
      return 'arriving';
    case 'delete':
      return 'deleting';
    case 'snapshot':
    case 'fork':
    case null:
      return state.settled === 'absent' ? 'creating' : state.settled;
    default:
      return unreachable(state.operation);
  }
}
