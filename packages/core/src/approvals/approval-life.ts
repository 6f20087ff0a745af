/**
 * The life of an approval, as one table. What is not in it does not happen: decided once, used once, and nothing leads back but
 * the word of the gateway that what it was used for was never sent.
 *
 * ```
 *   pending ─approve─► approved ─use─► used
 *      │                  │  ◄─release─┘
 *      ├─deny──► denied   │
 *      ├─expire► expired ◄┤
 *      └─void──► void    ◄┘
 * ```
 */

export const APPROVAL_STATES = ['pending', 'approved', 'used', 'denied', 'expired', 'void'] as const;
/**
 * `approved`: the same request leaves once. `used`: it was let go. `expired`: nobody decided, or nobody sent it again, in time.
 * `void`: its sandbox went back to an earlier point, left or was deleted.
 */
export type ApprovalState = (typeof APPROVAL_STATES)[number];

export const APPROVAL_STEPS = ['approve', 'deny', 'use', 'release', 'expire', 'void'] as const;
export type ApprovalStep = (typeof APPROVAL_STEPS)[number];

const TABLE: Readonly<Record<ApprovalState, Partial<Readonly<Record<ApprovalStep, ApprovalState>>>>> = {
  pending: { approve: 'approved', deny: 'denied', expire: 'expired', void: 'void' },
  approved: { use: 'used', expire: 'expired', void: 'void' },
  used: { release: 'approved' },
  denied: {},
  expired: {},
  void: {},
};

/** Null: that does not happen to one in this state. */
export function afterStep(state: ApprovalState, step: ApprovalStep): ApprovalState | null {
  return TABLE[state][step] ?? null;
}

/** The states in which that can happen. */
export function statesBefore(step: ApprovalStep): readonly ApprovalState[] {
  return APPROVAL_STATES.filter((state) => TABLE[state][step] !== undefined);
}

/** How long one waits for a decision; how long what was approved may be sent; and how long a denial holds. */
export const APPROVAL_WITHIN_MS = 15 * 60 * 1000;
/** That wait for a decision, of one sandbox and of one organisation. */
export const MAX_PENDING_OF_SANDBOX = 50;
export const MAX_PENDING_OF_ORGANISATION = 500;

export interface ApprovalLimits {
  readonly perSandbox: number;
  readonly perOrganisation: number;
}

export const APPROVAL_LIMITS: ApprovalLimits = {
  perSandbox: MAX_PENDING_OF_SANDBOX,
  perOrganisation: MAX_PENDING_OF_ORGANISATION,
};
