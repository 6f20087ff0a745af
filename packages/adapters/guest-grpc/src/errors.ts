/**
 * How a failed call becomes an `AppError`. Three sources, told apart in this order: our own limit or the caller's signal
 * ended it; the channel is gone, with the one reason that all its calls share; the agent answered with a gRPC status,
 * which the tables here translate. Text from the guest is hostile and passes `inert` before a person may see it.
 */

import { AppError, type ErrorCode } from '@space/core';
import { StatusError } from './exchange.ts';

/** gRPC's status codes, by their numbers. */
const STATUS_NAMES = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
] as const;
type StatusName = Exclude<(typeof STATUS_NAMES)[number], 'OK'>;

/** What a status means where nothing more special is said. */
const COMMON: Readonly<Record<StatusName, ErrorCode>> = {
  CANCELLED: 'link_lost',
  UNKNOWN: 'internal',
  INVALID_ARGUMENT: 'bad_request',
  DEADLINE_EXCEEDED: 'timed_out',
  NOT_FOUND: 'not_found',
  ALREADY_EXISTS: 'name_taken',
  PERMISSION_DENIED: 'internal',
  RESOURCE_EXHAUSTED: 'guest_full',
  FAILED_PRECONDITION: 'wrong_state',
  ABORTED: 'link_lost',
  OUT_OF_RANGE: 'bad_request',
  UNIMPLEMENTED: 'snapshot_unfit',
  INTERNAL: 'internal',
  UNAVAILABLE: 'link_lost',
  DATA_LOSS: 'internal',
  UNAUTHENTICATED: 'internal',
};

export type CallKind =
  | 'machine'
  | 'identity'
  | 'start'
  | 'running'
  | 'attach'
  | 'process'
  | 'input'
  | 'file'
  | 'dial'
  | 'accept';

const SPECIAL: Readonly<Record<CallKind, Partial<Record<StatusName, ErrorCode>>>> = {
  machine: {},
  identity: {
    UNKNOWN: 'restore_failed',
    INVALID_ARGUMENT: 'restore_failed',
    FAILED_PRECONDITION: 'restore_failed',
    RESOURCE_EXHAUSTED: 'restore_failed',
    INTERNAL: 'restore_failed',
    PERMISSION_DENIED: 'restore_failed',
  },
  start: {
    INVALID_ARGUMENT: 'command_not_started',
    NOT_FOUND: 'command_not_started',
    PERMISSION_DENIED: 'command_not_started',
    FAILED_PRECONDITION: 'command_not_started',
    RESOURCE_EXHAUSTED: 'guest_exhausted',
  },
  // A stream that had begun ends with an exit or is interrupted: no status says anything about the command.
  running: {
    INVALID_ARGUMENT: 'agent_lost',
    NOT_FOUND: 'agent_lost',
    PERMISSION_DENIED: 'agent_lost',
    FAILED_PRECONDITION: 'agent_lost',
    ALREADY_EXISTS: 'agent_lost',
    RESOURCE_EXHAUSTED: 'agent_lost',
    UNKNOWN: 'agent_lost',
    INTERNAL: 'agent_lost',
    DATA_LOSS: 'agent_lost',
  },
  // It has too many readers already.
  attach: { RESOURCE_EXHAUSTED: 'unavailable' },
  process: {},
  input: { FAILED_PRECONDITION: 'input_closed' },
  dial: {
    NOT_FOUND: 'port_refused',
    RESOURCE_EXHAUSTED: 'port_busy',
  },
  accept: {},
  file: {
    NOT_FOUND: 'file_not_found',
    PERMISSION_DENIED: 'file_denied',
    FAILED_PRECONDITION: 'file_wrong_type',
    ALREADY_EXISTS: 'file_exists',
    RESOURCE_EXHAUSTED: 'guest_exhausted',
  },
};

/**
 * What each errno says of a file. The agent's table (`errno.rs`) gives the names; here each has one meaning for a user. An
 * older agent may send fewer, with the same meanings.
 */
const ERRNO: Readonly<Record<string, ErrorCode>> = {
  ENOENT: 'file_not_found',
  ENODATA: 'attribute_not_found',
  EACCES: 'file_denied',
  EPERM: 'file_denied',
  EISDIR: 'file_wrong_type',
  ENOTDIR: 'file_wrong_type',
  ENXIO: 'file_wrong_type',
  ENODEV: 'file_wrong_type',
  EEXIST: 'file_exists',
  ENOTEMPTY: 'directory_not_empty',
  EROFS: 'file_read_only',
  EBUSY: 'file_busy',
  ETXTBSY: 'file_busy',
  ELOOP: 'file_symlink_loop',
  EXDEV: 'file_other_device',
  EOPNOTSUPP: 'file_unsupported',
  EFBIG: 'file_unsupported',
  EMLINK: 'file_unsupported',
  ENOSPC: 'guest_full',
  EDQUOT: 'guest_full',
  EMFILE: 'guest_exhausted',
  ENFILE: 'guest_exhausted',
  ENOMEM: 'guest_exhausted',
  EAGAIN: 'guest_exhausted',
  ENAMETOOLONG: 'bad_request',
  EINVAL: 'bad_request',
  E2BIG: 'bad_request',
  ERANGE: 'bad_request',
  // Its structure is broken: the kernel allows no change any more.
  EUCLEAN: 'file_unsupported',
  EIO: 'internal',
};

function errnoMeaning(kind: CallKind, text: string): ErrorCode | undefined {
  const name = kind === 'file' ? /^(E[A-Z0-9]+):/.exec(text)?.[1] : undefined;
  return name === undefined || !Object.hasOwn(ERRNO, name) ? undefined : ERRNO[name];
}

/** The error of a status that the agent sent, or of a stream that broke while the session lives on. */
export function errorOfCall(kind: CallKind, thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  if (!(thrown instanceof StatusError)) {
    const what = thrown instanceof Error ? inert(thrown.message) : '';
    return new AppError('link_lost', `The call to the agent broke off: ${what}.`, { cause: thrown });
  }
  const name = STATUS_NAMES[thrown.status] ?? 'UNKNOWN';
  if (name === 'UNIMPLEMENTED') return earlierAgent(thrown);
  const code =
    errnoMeaning(kind, thrown.message) ?? (name === 'OK' ? 'internal' : (SPECIAL[kind][name] ?? COMMON[name]));
  return new AppError(code, inert(thrown.message) || `The agent answered ${name}.`, { cause: thrown });
}

/** The agent lies in the memory of the snapshot, and is as old as that. */
function earlierAgent(cause: StatusError): AppError {
  const detail =
    'The agent in the sandbox is of an earlier version and does not have this call. A boot brings the present one: rewind to a ' +
    'snapshot of kind disk.';
  return new AppError('snapshot_unfit', { detail, facts: { need: 'agent' } }, { cause });
}

/** A reply that breaks the contract. */
export function brokenContract(what: string): AppError {
  return new AppError('link_lost', `The agent broke the contract: ${what}.`);
}

const MAX_TEXT = 300;
/** White space, control characters, and those that reorder or hide text. */
const ACTIVE = /[\s\p{Cc}\p{Cf}\p{Co}\p{Cs}]+/gu;

/** Text of the guest as it may be shown: one bounded line without control characters. */
export function inert(text: string): string {
  const line = text
    .slice(0, 4 * MAX_TEXT)
    .replace(ACTIVE, ' ')
    .trim();
  return line.length > MAX_TEXT ? `${line.slice(0, MAX_TEXT).toWellFormed()}…` : line;
}
