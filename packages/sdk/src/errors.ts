/** What the client throws. */
import type { Problem } from '@space/contract';

/** `never`: the same call fails again. `later`: nothing was done; wait and repeat. `safe`: repeat at once. */
export type RetryAdvice = Problem['retry'];

/** Codes of the platform, and four of the client's own: nothing was heard, what was heard makes no sense, wrong use, the
 * server is of a version that this client does not know.
 */
export type SpaceErrorCode = Problem['code'] | 'unreachable' | 'invalid_answer' | 'misused' | 'version_unfit';

export interface SpaceErrorFields {
  readonly code: SpaceErrorCode;
  readonly detail: string;
  readonly status?: number | undefined;
  readonly nextStep: string;
  readonly retry: RetryAdvice;
  readonly requestId?: string | undefined;
  readonly facts?: Readonly<Record<string, string | number | boolean>>;
}

/** Any failure of a call, with what to do about it. Its message holds code, cause and next step. */
export class SpaceError extends Error {
  override readonly name: string = 'SpaceError';
  /** What went wrong, for programs. */
  readonly code: SpaceErrorCode;
  /** HTTP status; undefined when there was no answer. */
  readonly status: number | undefined;
  /** What went wrong this time, for people. */
  readonly detail: string;
  /** What to do next, for people. */
  readonly nextStep: string;
  /** Whether repeating the call can help. */
  readonly retry: RetryAdvice;
  /** Finds the call in the log of the server. */
  readonly requestId: string | undefined;
  /** Further values of this case, e.g. the limit that was passed. */
  readonly facts: Readonly<Record<string, string | number | boolean>>;

  constructor(fields: SpaceErrorFields, options?: ErrorOptions) {
    super(`${fields.code}: ${fields.detail} ${fields.nextStep}`, options);
    this.code = fields.code;
    this.status = fields.status;
    this.detail = fields.detail;
    this.nextStep = fields.nextStep;
    this.retry = fields.retry;
    this.requestId = fields.requestId;
    this.facts = fields.facts ?? {};
  }
}

export function fromProblem(problem: Problem): SpaceError {
  const { type: _, title: __, status, detail, code, retry, nextStep, requestId, ...facts } = problem;
  return new SpaceError({ code, detail, status, nextStep, retry, requestId, facts });
}

export function unreachable(url: string, cause: unknown): SpaceError {
  return new SpaceError(
    {
      code: 'unreachable',
      detail: `There was no answer from ${url}.`,
      nextStep: 'Check that the server runs and that the URL is right (SPACE_URL or baseUrl).',
      retry: 'later',
    },
    { cause },
  );
}

export function invalidAnswer(detail: string, status: number | undefined, cause?: unknown): SpaceError {
  return new SpaceError(
    {
      code: 'invalid_answer',
      detail,
      status,
      nextStep: 'Check that the URL is that of a SPACE server, and that no proxy changes its answers.',
      retry: 'never',
    },
    { cause },
  );
}

export function linkLost(detail: string, cause?: unknown): SpaceError {
  return new SpaceError(
    {
      code: 'link_lost',
      detail,
      nextStep: 'Repeat the call. A command that was started runs on; attach to it by its process id.',
      retry: 'safe',
    },
    { cause },
  );
}

export function misused(detail: string, nextStep: string, cause?: unknown): SpaceError {
  return new SpaceError({ code: 'misused', detail, nextStep, retry: 'never' }, { cause });
}
