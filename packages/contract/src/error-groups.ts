/** What many routes can answer alike. */
import { type ErrorCode, SHUT_CODES } from '@space/core';

/** What starting a microVM from a snapshot can answer. */
export const START = [
  ...SHUT_CODES,
  'limit_reached',
  'restore_failed',
  'snapshot_bad',
  'snapshot_unfit',
  'insufficient_memory',
  'insufficient_space',
  'timed_out',
] as const satisfies readonly ErrorCode[];

/** What an operation on the lifecycle of one sandbox can answer. */
export const OPERATION = [
  ...SHUT_CODES,
  'not_found',
  'wrong_state',
  'operation_in_progress',
  'superseded',
  'record_bad',
  'out_of_space',
  'link_lost',
] as const satisfies readonly ErrorCode[];

/** What came of a microVM that was relied on. */
export const VM = ['vm_lost', 'vm_unresponsive', 'agent_lost'] as const satisfies readonly ErrorCode[];

/** What reaching into a sandbox can answer; a paused one is woken first. */
export const USE = [...OPERATION, ...START, ...VM] as const satisfies readonly ErrorCode[];

export const WAKES = 'Wakes a paused sandbox.';
