/**
 * Every code that a problem on the wire can carry: the core's catalogue, and the few errors that exist only because the
 * contract is spoken over HTTP, of which the core knows nothing.
 */
import { ERRORS, type RetryAdvice } from '@space/core';

interface ProblemKind {
  readonly status: number;
  readonly retry: RetryAdvice;
  readonly title: string;
  readonly nextStep: string;
}

export const PROTOCOL_ERRORS = {
  method_not_allowed: {
    status: 405,
    retry: 'never',
    title: 'This path does not know that method',
    nextStep: 'Use a method that the Allow header names.',
  },
  request_too_slow: {
    status: 408,
    retry: 'safe',
    title: 'The request came too slowly',
    nextStep: 'Repeat the call over a better connection.',
  },
  unsupported_media_type: {
    status: 415,
    retry: 'never',
    title: 'The request body is of a type that this call does not take',
    nextStep: 'Send "Content-Type: application/json"; for a file, "application/octet-stream".',
  },
  range_unsatisfiable: {
    status: 416,
    retry: 'never',
    title: 'The file has no bytes in that range',
    nextStep: 'Stat the file for its size; Content-Range also states it.',
  },
  upgrade_required: {
    status: 426,
    retry: 'never',
    title: 'This call takes the connection over, and was not asked to',
    nextStep: 'Send "Connection: Upgrade" and the Upgrade header that the answer names, over HTTP/1.1.',
  },
  host_refused: {
    status: 421,
    retry: 'never',
    title: 'The Host header names no host of this server',
    nextStep: 'Call it by a loopback name, or add the host to the configuration of the server.',
  },
} as const satisfies Record<string, ProblemKind>;

export type ProtocolErrorCode = keyof typeof PROTOCOL_ERRORS;

export const PROBLEMS = { ...ERRORS, ...PROTOCOL_ERRORS } as const;
export type ProblemCode = keyof typeof PROBLEMS;

export const PROBLEM_CODES = Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]];

export function problemKindOf(code: ProblemCode): ProblemKind {
  return PROBLEMS[code];
}
