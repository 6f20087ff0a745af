/**
 * The stage at which a request waits for a reviewer. Nothing of it has been sent, and of what is sent later nothing is read that
 * was not approved: the body is here, whole; headers that do not count are taken off; trailers do not follow.
 */
import { createHash } from 'node:crypto';
import {
  AppError,
  type ApprovalId,
  type BoundSecret,
  canonicalRequest,
  countedHeaders,
  type HeldRequest,
  hasPlaceholder,
  mustBeAsked,
  shownRequest,
  TICKET_HEADER,
} from '@space/core';
import type { AskedRequest, Header } from './admission.ts';
import type { HoldEnd } from './held-asks.ts';
import type { Passage } from './passage.ts';
import { refused, refusedSecret } from './refusal.ts';
import { PLACEHOLDER_IN_BODY } from './secrets/placeholder-screen.ts';
import { addedBy, planned } from './secrets/secret-stage.ts';
import { unpack } from './unpack-body.ts';

const MAX_BODY_BYTES = 1024 * 1024;
/** Longer than any ticket is. */
const MAX_TICKET_LETTERS = 64;

export interface Approved {
  readonly approvalId: ApprovalId;
  readonly headers: readonly Header[];
  /** The binding whose secret was shown to be added; null: none was. */
  readonly bound: BoundSecret | null;
}

/** Throws `approval_pending`, `approval_denied`, `egress_refused` or `secret_unavailable`. The body must not be read while it waits. */
export async function askFirst(passage: Passage, asked: AskedRequest, rule: string): Promise<Approved> {
  const { sandboxId, lifeId } = passage.connection;
  const { asks, rules } = passage;
  // What will not leave is not asked for.
  const bound = planned(passage, asked);
  const leave = asks.take({ sandboxId, organisationId: rules.organisationId });
  try {
    const request = { ...(await readWhole(passage, asked, rule)), added: bound === null ? null : addedBy(bound) };
    // Nor what would use an approval up and then not leave.
    if (bound !== null) await passage.secrets.valueOf(rules.organisationId, bound.secret, asked.signal());
    const held = {
      sandboxId,
      lifeId,
      rule,
      digest: createHash('sha256').update(canonicalRequest(request)).digest('hex'),
      ticket: ticketOf(asked),
      request: shownRequest(request, createHash('sha256').update(request.body).digest('hex'), await unpack(request)),
    };
    const end = await asks.hold(held, AbortSignal.any([asked.signal(), passage.signal]));
    const approvalId = approvedBy(end, rule);
    // The rules of now, which may be other ones than those that it was held by.
    const decision = passage.judgeRequest(asked.request);
    if (!decision.allowed && !mustBeAsked(decision)) throw refused(decision);
    return { approvalId, headers: headersOf(asked, request), bound };
  } finally {
    leave();
  }
}

async function readWhole(passage: Passage, asked: AskedRequest, rule: string): Promise<Omit<HeldRequest, 'added'>> {
  const { bytes, isWhole } = await asked.body.peek(MAX_BODY_BYTES);
  if (!isWhole || bytes.length > MAX_BODY_BYTES) {
    throw new AppError('egress_refused', {
      detail: `A reviewer has to approve it first, and its body is larger than 1 MiB, which nobody is shown. Rule: ${rule}.`,
      facts: { rule },
    });
  }
  if (hasPlaceholder(bytes.toString('latin1'))) throw refusedSecret(PLACEHOLDER_IN_BODY);
  const { secure, url, headers } = asked;
  return { secure, ...passage.target, method: asked.request.method, url, headers, body: bytes };
}

function ticketOf({ headers }: AskedRequest): string | null {
  const [ticket, ...more] = headers.filter(([name]) => name.toLowerCase() === TICKET_HEADER).map(([, value]) => value);
  if (ticket === undefined) return null;
  return more.length > 0 ? 'more than one' : ticket.trim().slice(0, MAX_TICKET_LETTERS);
}

/** Those that were approved, and no others; the host is that of the connection. */
function headersOf({ headers }: AskedRequest, request: HeldRequest): readonly Header[] {
  const host = headers.filter(([name]) => name.toLowerCase() === 'host');
  const { length } = request.body;
  const size: readonly Header[] =
    length === 0 && ['GET', 'HEAD'].includes(request.method) ? [] : [['content-length', `${length}`]];
  return [...host, ...countedHeaders(request), ...size];
}

/** Throws unless a reviewer has approved it. */
function approvedBy(end: HoldEnd, rule: string): ApprovalId {
  switch (end.kind) {
    case 'let_go':
      return end.approvalId;
    case 'refuse':
      throw new AppError('approval_denied', {
        detail: `${end.reason} Nothing was sent. Rule: ${rule}. Whom to ask: a reviewer of the organisation.`,
        facts: { rule, ...(end.approvalId === null ? {} : { approval: end.approvalId }) },
      });
    case 'waited': {
      const { told } = end;
      if (told === null) throw new AppError('approval_pending', { detail: UNASKED, facts: { rule } });
      const { approvalId, expiresAt } = told;
      throw new AppError('approval_pending', {
        detail:
          `Nothing was sent yet. Send the same request again, until ${expiresAt}: it goes through once a reviewer has approved ` +
          `it. Ticket: ${approvalId} (to be sent as ${TICKET_HEADER}, if at all). Rule: ${rule}.`,
        facts: { rule, approval: approvalId, expiresAt },
      });
    }
  }
}

const UNASKED = 'Nothing was sent, and nobody could be asked: the control plane does not answer. Send it again later.';
