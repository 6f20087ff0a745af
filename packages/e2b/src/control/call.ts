/** One call of the control API, as the functions that answer it see it. */
import type { Caller, Sandbox, UseCases } from '@space/contract';
import type { SandboxId, SandboxStatus } from '@space/core';
import { E2bError, isCode, noSandbox } from '../errors.ts';
import { fromE2bId } from '../sandbox-ids.ts';

interface RunsAsked {
  readonly statuses: readonly SandboxStatus[];
  /** Of which all are counted. */
  readonly counted: readonly SandboxStatus[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly startedFrom?: Date;
  readonly template?: string;
  readonly order: 'asc' | 'desc';
  readonly limit: number;
  readonly after?: { readonly at: Date; readonly id: SandboxId };
}

export interface Platform {
  readonly useCases: UseCases;
  /** Sandboxes of the caller's project in the order in which they began to run. */
  listRuns(
    caller: Caller,
    asked: RunsAsked,
  ): Promise<{ readonly sandboxes: readonly Sandbox[]; readonly count: number }>;
  /** The token that reaches into a sandbox, for the caller. */
  tokenFor(caller: Caller, sandboxId: SandboxId): Promise<string>;
  readonly uploads: Uploads;
  /** What names of hosts end in that lead into sandboxes by TLS; undefined: there are none. */
  readonly domain: string | undefined;
  /** Told of a sandbox that has just been paused or deleted: nothing in it answers any more. */
  left(sandboxId: SandboxId): void;
}

/** Links by which one archive is brought here without a key. */
interface Uploads {
  ticketFor(caller: Caller, hash: string): Promise<string>;
  /** Null: it is not good. */
  redeem(ticket: string): Promise<{
    readonly identity: Pick<Caller, 'principal' | 'projectId'>;
    readonly hash: string;
  } | null>;
}

export interface E2bCall {
  readonly platform: Platform;
  readonly caller: Caller;
  /** The address of this server, as the caller has it. */
  readonly origin: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  /** The JSON body, or `{}`. */
  readonly body: unknown;
}

export interface E2bAnswer {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Runs it for the sandbox that the path names; one that is not there is told of in their words. */
export async function onSandbox<T>(call: E2bCall, run: (id: SandboxId) => Promise<T>): Promise<T> {
  const given = call.params['id'] ?? '';
  const id = fromE2bId(given);
  if (id === undefined) throw noSandbox(given);
  try {
    return await run(id);
  } catch (thrown) {
    throw isCode(thrown, 'not_found') ? noSandbox(given) : thrown;
  }
}

const HOUR_S = 60 * 60;
/** The longest run that a sandbox can be given, in whole hours. */
const MAX_TIMEOUT_H = 24 * 24;

export function checkTimeout(seconds: number): number {
  if (seconds <= MAX_TIMEOUT_H * HOUR_S) return seconds;
  throw new E2bError(400, `Timeout cannot be greater than ${MAX_TIMEOUT_H} hours`);
}

/** Of a run that begins. */
export function checkRun(seconds: number): number {
  if (seconds <= 0) throw new E2bError(400, 'Timeout must be greater than 0');
  return checkTimeout(seconds);
}

/** ISO 8601, so many seconds from now. */
export function secondsFromNow(seconds: number): string {
  return new Date(Date.now() + seconds * 1000).toISOString();
}
