/**
 * What each errno of the store means, in one place. Whatever is not here is unexpected and passes through unchanged, to
 * be reported as `internal` with its cause.
 */
import { AppError } from '@space/core';

export function errnoOf(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown)) return undefined;
  return typeof thrown.code === 'string' ? thrown.code : undefined;
}

/** The typed error for a failed call on a vault; `doing` is what was tried, as in "creating the life lif_…". */
export function storeFailure(thrown: unknown, doing: string): unknown {
  if (thrown instanceof AppError) return thrown;
  switch (errnoOf(thrown)) {
    case 'ENOSPC':
    case 'EDQUOT':
      return new AppError('insufficient_space', `The vault ran out of space while ${doing}.`, { cause: thrown });
    case 'EROFS':
      return new AppError(
        'unavailable',
        `The vault is read-only since a write to its device failed; ${doing} was not possible. ` +
          'Free space on the host or repair the device, then restart the node.',
        { cause: thrown },
      );
    default:
      return thrown;
  }
}
