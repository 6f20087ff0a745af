/**
 * The part of the records that remembers calls: under which idempotency key a call was made, and how it was answered.
 *
 * - A key of a caller names one call: it is claimed once, whoever tries at the same time.
 * - An answer is kept only by the run that holds the claim; a run that was taken over keeps nothing.
 */
import type { ApiKeyId } from '@space/core';
import type { Settles } from './audit-records.ts';

/** What names a call: its caller and the key that the caller gave. */
export interface CallKey {
  readonly apiKeyId: ApiKeyId;
  readonly idempotencyKey: string;
}

export interface RecordedCall extends CallKey {
  readonly route: string;
  /** SHA-256 of the parsed input and the project, hex. */
  readonly digest: string;
  /** The request that carries it out. */
  readonly requestId: string;
  /** The process that carries it out. */
  readonly owner: string;
  /** As JSON; null while it is carried out. */
  readonly answer: string | null;
  readonly at: Date;
}

export interface CallRecords {
  /** Null: it is recorded now. Else the call that holds the key. */
  claim(call: RecordedCall, settles: Settles): Promise<RecordedCall | null>;
  /** Compare-and-set on the request that held it; false: it moved on. */
  takeOver(call: RecordedCall, by: Pick<RecordedCall, 'requestId' | 'owner'>): Promise<boolean>;
  /** Nothing happens when the request does not hold the call any more. */
  keepAnswer(call: RecordedCall, answer: string, settles: Settles): Promise<void>;
  /** Lets go of a call that changed nothing, so that it can be made again. */
  release(call: RecordedCall): Promise<void>;
  dropBefore(time: Date): Promise<void>;
  /** Of each caller, all but the newest so many. It looks at every call that is kept. */
  dropSurplus(keepPerCaller: number): Promise<void>;
}
