/** Says which step is running and how long it took, one line each, in the manner of setup/bootstrap.sh. */
export interface Step {
  readonly number: number;
  readonly total: number;
  readonly title: string;
}

export async function reportStep<T extends { readonly fromCache: boolean }>(
  step: Step,
  work: () => Promise<T>,
): Promise<T> {
  const startedAt = performance.now();
  const say = (text: string) => process.stderr.write(`[${step.number}/${step.total}] ${step.title}: ${text}\n`);
  const slow = setTimeout(() => say('building …'), 300);
  try {
    const result = await work();
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    say(result.fromCache ? 'in the cache' : `done (${seconds} s)`);
    return result;
  } finally {
    clearTimeout(slow);
  }
}
