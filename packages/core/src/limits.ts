/** How much an organisation may have at a time, and whether what is about to begin fits. */
import { AppError } from './errors.ts';
import { hasVm, type Operation, type Settled } from './lifecycle.ts';

export const LIMITED = ['sandboxes', 'running', 'snapshots', 'memoryMib'] as const;
export type Limited = (typeof LIMITED)[number];

/** Null: no limit. */
export type Limits = Readonly<Record<Limited, number | null>>;
/** What is held now, counted from what is recorded, operations in flight included. */
export type Usage = Readonly<Record<Limited, number>>;

export const NO_LIMITS: Limits = { sandboxes: null, running: null, snapshots: null, memoryMib: null };

/** The operations that end with a VM: from their begin on, it is counted. */
export const STARTS: readonly Operation[] = ['create', 'resume', 'rewind'];

/** Whether a sandbox counts as running, and its memory as promised. */
export function holdsVm({ settled, operation }: { readonly settled: Settled; readonly operation: Operation | null }) {
  return hasVm(settled) || (operation !== null && settled !== 'deleted' && STARTS.includes(operation));
}

/** What an operation adds to; a pause adds to nothing, so that it is never refused. */
export function addedBy(operation: Operation, settled: Settled, takesKept: boolean): readonly Limited[] {
  const created: readonly Limited[] =
    operation === 'create' || (operation === 'arrive' && settled === 'absent') ? ['sandboxes'] : [];
  const started: readonly Limited[] = !hasVm(settled) && STARTS.includes(operation) ? ['running', 'memoryMib'] : [];
  const taken: readonly Limited[] = takesKept ? ['snapshots'] : [];
  return [...created, ...started, ...taken];
}

/**
 * `usage` holds what is about to begin. Only what that adds to is looked at: a limit that was lowered below what is held
 * stops nothing else. Throws `limit_reached`.
 */
export function checkLimits(limits: Limits, usage: Usage, added: readonly Limited[]): void {
  for (const limit of added) {
    const max = limits[limit];
    if (max === null || usage[limit] <= max) continue;
    throw new AppError('limit_reached', {
      detail: `The organisation may have ${max} (${limit}); with this it would have ${usage[limit]}.`,
      facts: { limit, max, wouldBe: usage[limit] },
    });
  }
}
