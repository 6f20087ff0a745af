/**
 * What an answer of a transit engine means to a vault. It says so in a list `errors`; what has none is not from it but from
 * something in between, and is no refusal.
 */
import { AppError } from '@space/core';

const REFUSALS: readonly (readonly [RegExp, string])[] = [
  [/permission denied|invalid token/i, 'the platform may not use it'],
  [/(encryption key|policy) not found/i, 'it is not there'],
  [/soft.?deleted/i, 'it is deleted'],
  [/disallowed by policy/i, 'the version that wrapped it is not allowed any more'],
  [/no handler for route|unsupported path/i, 'its engine is not there'],
];
const WRONG = /invalid ciphertext|authentication failed|unable to decrypt|could not decode/i;

export function meaningOf(status: number, answer: unknown): AppError {
  const told = errorsIn(answer);
  const isAnswer = status === 400 || status === 403 || status === 404;
  if (!isAnswer || told === null) return unavailable(`answered ${status}`);
  const refusal = REFUSALS.find(([pattern]) => pattern.test(told));
  if (refusal !== undefined) return new AppError('kms_refused', `The transit engine refuses the key: ${refusal[1]}.`);
  if (WRONG.test(told)) {
    return new AppError('vault_key_wrong', 'The transit engine does not unwrap it by that key for that vault.');
  }
  return unavailable(`answered ${status}, for a key that may be of a type that takes no associated data`);
}

export function unavailable(what: string): AppError {
  return new AppError('kms_unavailable', `The transit engine ${what}.`);
}

function errorsIn(answer: unknown): string | null {
  if (typeof answer !== 'object' || answer === null || !('errors' in answer) || !Array.isArray(answer.errors))
    return null;
  return answer.errors.filter((error) => typeof error === 'string').join('; ');
}
