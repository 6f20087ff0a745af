/**
 * What each request passes before it leaves, whatever the form of HTTP that it came in: one stage after another, each of which
 * may refuse it. What comes out is what is sent.
 */
import type { Transform, Writable } from 'node:stream';
import { AppError, type ApprovalId, type EgressRequest, mustBeAsked } from '@space/core';
import { askFirst } from './ask-stage.ts';
import { lookInto } from './look-into.ts';
import type { LoadedRules, Passage } from './passage.ts';
import { refused } from './refusal.ts';
import type { RequestBody } from './request-body.ts';
import { placeSecret } from './secrets/secret-stage.ts';

/** The name as it was sent, and the value. */
export type Header = readonly [name: string, value: string];

/** A request as the guest sent it; its head has been read strictly, and names the host of its connection. */
export interface AskedRequest {
  /** Becomes the one that was looked into. */
  request: EgressRequest;
  /** Path and query. */
  readonly url: string;
  /** Without those of the connection. */
  readonly headers: readonly Header[];
  readonly body: RequestBody;
  /** Whether it came in TLS, and leaves in TLS to a host that was verified. */
  readonly secure: boolean;
  /** One that aborts when nobody waits for the answer any more; made when it is asked for, as few requests need one. */
  readonly signal: () => AbortSignal;
}

export interface AnswerHead {
  readonly status: number;
  readonly headers: readonly Header[];
}

export interface GivenAnswer extends AnswerHead {
  /** What the body passes through. Null: as it is. */
  readonly through: Transform | null;
}

/** A request as it leaves. Its body is that of the asked one. */
export interface Admitted {
  /** As it was judged. */
  readonly request: EgressRequest;
  readonly url: string;
  readonly headers: readonly Header[];
  /** That let it through. */
  readonly rule: string;
  /** By which a reviewer let it through: nothing leaves but these headers and the body, and no trailers. */
  readonly approvalId: ApprovalId | null;
  /** The secret that was placed in it, by name; null: none was. */
  readonly secret: string | null;
  /** Whether other rules still grant what it was given. */
  readonly isGranted: (rules: LoadedRules) => boolean;
  /** What the guest gets to see of the answer. */
  readonly answer: (head: AnswerHead) => GivenAnswer;
  /** What follows the body, as it leaves. Throws `egress_refused`. */
  readonly trailers: (trailers: readonly Header[]) => readonly Header[];
  /** What the guest gets to see of what comes back beside the answer: its trailers, and heads before it. */
  readonly scrubbed: (headers: readonly Header[]) => readonly Header[];
}

/** Throws `egress_refused`, `approval_pending` and `approval_denied`. Rules may change while a stage waits, so what waits stands before what judges, or is judged again. */
export async function admit(passage: Passage, asked: AskedRequest): Promise<Admitted> {
  if (passage.failure !== null) throw passage.failure;
  asked.request = await lookInto(passage, asked);
  const { rules } = passage;
  const decision = passage.judgeRequest(asked.request);
  if (!decision.allowed && !mustBeAsked(decision)) throw refused(decision);
  const approved = mustBeAsked(decision) ? await askFirst(passage, asked, decision.rule) : null;
  const { approvalId = null, headers = asked.headers } = approved ?? {};
  const placed = await placeSecret(passage, { ...asked, headers }, approved);
  // Rules may have changed while a reviewer was asked, or the secret was fetched.
  if (passage.rules !== rules) {
    const again = passage.judgeRequest(asked.request);
    if (!again.allowed && !(approved !== null && mustBeAsked(again))) throw refused(again);
  }
  return { request: asked.request, rule: decision.rule, approvalId, ...placed };
}

/** One for all, since an error that is made for each request costs more than the rest of its bookkeeping. */
const NOBODY_WAITS = new AppError('egress_failed', 'The program did not wait for the answer.');

/** Aborts when what is answered on has closed. */
export function untilClosed(answer: Writable): () => AbortSignal {
  let signal: AbortSignal | null = null;
  return () => {
    signal ??= signalOf(answer);
    return signal;
  };
}

function signalOf(answer: Writable): AbortSignal {
  const closed = new AbortController();
  const abort = (): void => closed.abort(NOBODY_WAITS);
  if (answer.closed || answer.destroyed) abort();
  else answer.once('close', abort);
  return closed.signal;
}
