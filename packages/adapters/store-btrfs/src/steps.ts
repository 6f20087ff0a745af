/**
 * The points between the effects of a commit and of a seal, so that tests can stop the world at each of them. In production nothing
 * happens there.
 */
export const COMMIT_STEPS = ['captured', 'files_written', 'read_only', 'renamed', 'durable'] as const;
export const SEAL_STEPS = ['files_laid', 'sealed'] as const;

export type StepHook = (step: (typeof COMMIT_STEPS | typeof SEAL_STEPS)[number]) => Promise<void>;

export const NO_STEPS: StepHook = async () => {};
