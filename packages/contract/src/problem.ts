/**
 * Errors as they reach a user. Whatever is thrown becomes a problem here and nowhere else, and what is not in the
 * catalogue says nothing of its cause: that belongs in the log, under the same request id.
 */
import { AppError } from '@space/core';
import { PROTOCOL_ERRORS, type ProblemCode, type ProtocolErrorCode, problemKindOf } from './problem-codes.ts';
import type { Problem } from './types.ts';

/** An error that only the protocol knows, e.g. a method that a path does not have. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
  readonly code: ProtocolErrorCode;
  /** Response headers that belong to it, e.g. Allow. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ProtocolErrorCode, detail?: string, headers: Readonly<Record<string, string>> = {}) {
    super(detail ?? PROTOCOL_ERRORS[code].title);
    this.code = code;
    this.headers = headers;
  }
}

/** Waiting time that `Retry-After` gives for errors whose advice is `later`. */
export const RETRY_AFTER_SECONDS = 2;

const INTERNAL_DETAIL = 'The cause is in the log of the server, under the request id.';

type Facts = Readonly<Record<string, string | number | boolean>>;

function problemOf(code: ProblemCode, detail: string, requestId: string, facts: Facts = {}): Problem {
  const kind = problemKindOf(code);
  return {
    // Facts first, so that none can take the place of a field of ours.
    ...facts,
    type: `urn:space:error:${code}`,
    title: kind.title,
    status: kind.status,
    detail,
    code,
    retry: kind.retry,
    nextStep: kind.nextStep,
    requestId,
  };
}

/** Any thrown value as the problem to answer with. */
export function toProblem(thrown: unknown, requestId: string): Problem {
  if (thrown instanceof ProtocolError) return problemOf(thrown.code, thrown.message, requestId);
  if (thrown instanceof AppError && thrown.code !== 'internal') {
    return problemOf(thrown.code, thrown.message, requestId, thrown.facts);
  }
  return problemOf('internal', INTERNAL_DETAIL, requestId);
}
