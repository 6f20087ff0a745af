/**
 * When a sandbox ends by itself: a pure function. An expiry is one instant and what happens then. `pause` keeps everything, in a
 * last point, and `pause_files` its files alone; `delete` takes the sandbox and all its points but the named ones. It is met once, and cleared with that: a sandbox
 * that is woken after its expiry has none.
 */
import { unreachable } from './errors.ts';
import type { LifecycleState } from './lifecycle.ts';

export const EXPIRY_ACTIONS = ['pause', 'pause_files', 'delete'] as const;

export interface Expiry {
  readonly at: Date;
  readonly action: (typeof EXPIRY_ACTIONS)[number];
}

export type Expiring =
  /** It is not time, or something else has to end first. */
  | 'wait'
  | Expiry['action']
  /** It does not run: there is nothing to pause. */
  | 'met';

export function decideExpiry({ settled, operation }: LifecycleState, { at, action }: Expiry, nowMs: number): Expiring {
  if (nowMs < at.getTime() || operation !== null) return 'wait';
  switch (settled) {
    case 'running':
      return action;
    // A point cannot be taken of what stands still for want of space; it can be deleted.
    case 'out_of_space':
      return action === 'delete' ? 'delete' : 'wait';
    case 'paused':
    case 'crashed':
      return action === 'delete' ? 'delete' : 'met';
    // The tombstone of a move is no sandbox that could end.
    case 'moved':
      return 'met';
    case 'absent':
    case 'deleted':
      return 'wait';
    default:
      return unreachable(settled);
  }
}
