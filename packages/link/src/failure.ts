/**
 * Errors over the link: code, detail and facts as they were thrown; of the causes a bounded text, for the log of the other
 * side. No stack crosses: it stays in the log of the process whose it is.
 */
import { AppError, asAppError, ERRORS, type ErrorCode } from '@space/core';

const MAX_CAUSES = 5;
const MAX_CAUSE_LETTERS = 500;
const MAX_DETAIL_LETTERS = 16_000;

interface Failure {
  readonly code: string;
  readonly detail: string;
  readonly facts: Readonly<Record<string, string | number | boolean>>;
  readonly causes: readonly string[];
}

/** What became of an error in another process, for people who read a log. */
class DistantError extends Error {
  override readonly name = 'DistantError';
}

export function describeFailure(thrown: unknown): Failure {
  const { code, message, facts, cause } = asAppError(thrown);
  return { code, detail: message.slice(0, MAX_DETAIL_LETTERS), facts, causes: causesOf(cause) };
}

/** Never throws: a failure that cannot be read is one too. */
export function failureFrom(described: unknown): AppError {
  const { code, detail, facts, causes } = (described ?? {}) as Partial<Failure>;
  const cause = (Array.isArray(causes) ? causes : []).reduceRight<Error | undefined>(
    (inner, text) => new DistantError(String(text), inner === undefined ? undefined : { cause: inner }),
    undefined,
  );
  return new AppError(
    isCode(code) ? code : 'internal',
    {
      detail: typeof detail === 'string' ? detail : 'The other process failed and did not say how.',
      ...(facts ? { facts } : {}),
    },
    cause === undefined ? undefined : { cause },
  );
}

function isCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(ERRORS, code);
}

function causesOf(first: unknown): string[] {
  const texts: string[] = [];
  for (let cause = first; cause !== undefined && cause !== null && texts.length < MAX_CAUSES; ) {
    texts.push(
      (cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause)).slice(0, MAX_CAUSE_LETTERS),
    );
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return texts;
}
