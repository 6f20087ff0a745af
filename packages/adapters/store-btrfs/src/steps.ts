/**
 * The points between the effects of a commit, so that tests can stop the world at each of them. In production nothing
 * happens there.
 */
export const COMMIT_STEPS = ['captured', 'files_written', 'read_only', 'renamed', 'durable'] as const;

export type StepHook = (step: (typeof COMMIT_STEPS)[number]) => Promise<void>;

export const NO_STEPS: StepHook = async () => {};
