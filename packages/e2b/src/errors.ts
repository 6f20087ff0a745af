/** Errors as E2B's SDKs read them: the status is in the body, too, since some of their calls look at nothing else. */
import type { Problem, ProblemCode } from '@space/contract';
import { AppError } from '@space/core';

/** One that only this face has, in the words that its clients know. */
export class E2bError extends Error {
  override readonly name = 'E2bError';
  readonly status: number;
  readonly errorCode: string | undefined;

  constructor(status: number, message: string, errorCode?: string) {
    super(message);
    this.status = status;
    this.errorCode = errorCode;
  }
}

/** What is asked for is E2B's, and not here. */
export function refused(what: string, instead: string): E2bError {
  return new E2bError(400, `${what} is not supported by this server. ${instead}`);
}

export function noSandbox(given: string): E2bError {
  return new E2bError(404, `Sandbox "${given}" doesn't exist or you don't have access to it`);
}

export interface ErrorBody {
  readonly code: number;
  readonly message: string;
  readonly error_code?: string;
}

/** Where their meaning of a status is another than ours. */
const STATUS: { readonly [C in ProblemCode]?: number } = {
  limit_reached: 429,
  template_unknown: 404,
  insufficient_space: 503,
  out_of_space: 503,
  snapshot_in_use: 400,
  // A 502 is for a sandbox that does not run.
  agent_lost: 503,
  link_lost: 503,
};

const ERROR_CODE: { readonly [C in ProblemCode]?: string } = {
  insufficient_memory: 'sandbox_capacity_unavailable',
  insufficient_space: 'sandbox_capacity_unavailable',
  internal: 'internal_server_error',
};

/** `explain` is for what is not ours: it logs the cause, and says what may be shown. */
export function errorBodyOf(thrown: unknown, explain: (thrown: unknown) => Problem): ErrorBody {
  if (thrown instanceof E2bError) {
    const { status: code, message, errorCode } = thrown;
    return { code, message, ...(errorCode === undefined ? {} : { error_code: errorCode }) };
  }
  const { code, status, detail, nextStep } = explain(thrown);
  const errorCode = ERROR_CODE[code];
  return {
    code: STATUS[code] ?? status,
    message: `${detail} ${nextStep}`,
    ...(errorCode === undefined ? {} : { error_code: errorCode }),
  };
}

export function isCode(thrown: unknown, code: AppError['code']): boolean {
  return thrown instanceof AppError && thrown.code === code;
}
