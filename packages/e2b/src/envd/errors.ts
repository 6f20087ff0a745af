/** How errors of the platform are told to E2B's SDKs: by a code of Connect, or a status of HTTP, with the texts they know. */
import { Code, ConnectError } from '@connectrpc/connect';
import { AppError, asAppError, type ErrorCode } from '@space/core';

/** What a code means to the SDKs where the HTTP status does not say it. */
const CODES: Partial<Record<ErrorCode, Code>> = {
  bad_request: Code.InvalidArgument,
  command_not_started: Code.InvalidArgument,
  unauthenticated: Code.Unauthenticated,
  forbidden: Code.PermissionDenied,
  not_found: Code.NotFound,
  file_not_found: Code.NotFound,
  attribute_not_found: Code.NotFound,
  file_denied: Code.PermissionDenied,
  file_wrong_type: Code.InvalidArgument,
  file_symlink_loop: Code.InvalidArgument,
  file_exists: Code.AlreadyExists,
  guest_full: Code.ResourceExhausted,
  guest_exhausted: Code.ResourceExhausted,
  limit_reached: Code.ResourceExhausted,
  too_many_attempts: Code.ResourceExhausted,
  // Of a kind that the process does not take.
  input_closed: Code.Internal,
  snapshot_unfit: Code.Unimplemented,
  timed_out: Code.DeadlineExceeded,
  // The sandbox, or what leads to it, is gone or going: the SDKs speak of its time-out then.
  vm_lost: Code.Unavailable,
  agent_lost: Code.Unavailable,
  link_lost: Code.Unavailable,
  wrong_state: Code.Unavailable,
  superseded: Code.Unavailable,
  operation_in_progress: Code.Unavailable,
};

/** What ends with the run of the machine that it was in. */
const LIFE_ENDS: ReadonlySet<ErrorCode> = new Set([
  'vm_lost',
  'agent_lost',
  'link_lost',
  'wrong_state',
  'superseded',
  'not_found',
]);

export function toConnectError(thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  const error = asAppError(thrown);
  return new ConnectError(textOf(error), connectCodeOf(error), undefined, undefined, error);
}

function connectCodeOf({ code, kind }: AppError): Code {
  const known = CODES[code];
  if (known !== undefined) return known;
  if (kind.status === 503) return Code.Unavailable;
  return kind.status < 500 ? Code.FailedPrecondition : Code.Internal;
}

/** Whether the sandbox does not run any more, as far as one that was in it can tell. */
export function endsLife(thrown: unknown): boolean {
  return thrown instanceof AppError && LIFE_ENDS.has(thrown.code);
}

/** An error that is told as it is. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const STATUSES: Partial<Record<ErrorCode, number>> = {
  file_wrong_type: 400,
  file_symlink_loop: 400,
  wrong_state: 502,
  superseded: 502,
};

export function toHttpError(thrown: unknown): HttpError {
  if (thrown instanceof HttpError) return thrown;
  if (thrown instanceof ConnectError) return new HttpError(HTTP_STATUS[thrown.code] ?? 500, thrown.rawMessage);
  const error = asAppError(thrown);
  return new HttpError(STATUSES[error.code] ?? error.kind.status, textOf(error));
}

const HTTP_STATUS: Partial<Record<Code, number>> = {
  [Code.InvalidArgument]: 400,
  [Code.Unauthenticated]: 401,
  [Code.PermissionDenied]: 403,
  [Code.NotFound]: 404,
  [Code.AlreadyExists]: 409,
  [Code.ResourceExhausted]: 429,
  [Code.Unimplemented]: 501,
  [Code.Unavailable]: 503,
  [Code.DeadlineExceeded]: 504,
};

function textOf({ code, kind, message }: AppError): string {
  if (code === 'guest_full') return 'not enough disk space available';
  // What went wrong inside is logged, and not told.
  return code === 'internal' ? kind.title : message;
}
