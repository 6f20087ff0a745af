/**
 * What each request passes before it leaves, whatever the form of HTTP that it came in: one stage after another, each of which
 * may refuse it. What comes out is what is sent.
 */
import type { EventEmitter } from 'node:events';
import type { Transform } from 'node:stream';
import { AppError, type ApprovalId, type EgressRequest, mustBeAsked } from '@space/core';
import { askFirst } from './ask-stage.ts';
import { lookInto } from './look-into.ts';
import type { Passage } from './passage.ts';
import { refused } from './refusal.ts';
import type { RequestBody } from './request-body.ts';

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
  /** Aborts when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

interface AnswerHead {
  readonly status: number;
  readonly headers: readonly Header[];
}

interface GivenAnswer extends AnswerHead {
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
  /** What the guest gets to see of the answer. */
  readonly answer: (head: AnswerHead) => GivenAnswer;
}

/** Throws `egress_refused`, `approval_pending` and `approval_denied`. Rules may change while a stage waits, so what waits stands before what judges, or is judged again. */
export async function admit(passage: Passage, asked: AskedRequest): Promise<Admitted> {
  if (passage.failure !== null) throw passage.failure;
  asked.request = await lookInto(passage, asked);
  const decision = passage.judgeRequest(asked.request);
  const approved = mustBeAsked(decision) ? await askFirst(passage, asked, decision.rule) : null;
  if (!decision.allowed && approved === null) throw refused(decision);
  const { request, url } = asked;
  const { approvalId = null, headers = asked.headers } = approved ?? {};
  return { request, url, headers, rule: decision.rule, approvalId, answer: (head) => ({ ...head, through: null }) };
}

/** One for all, since an error that is made for each request costs more than the rest of its bookkeeping. */
const NOBODY_WAITS = new AppError('egress_failed', 'The program did not wait for the answer.');

/** Aborts when what is answered on has closed. */
export function untilClosed(answer: EventEmitter): AbortSignal {
  const closed = new AbortController();
  answer.once('close', () => closed.abort(NOBODY_WAITS));
  return closed.signal;
}
