/** What a program in a sandbox is told when something does not leave: which rule, why, and whom to ask. */
import { AppError, type AskWhom, asAppError, type EgressDecision, TICKET_HEADER } from '@space/core';

type Denied = Extract<EgressDecision, { allowed: false }>;

const WHOM: Readonly<Record<AskWhom, string>> = {
  owner: 'whoever may change this sandbox can allow it (its `network`)',
  admin: 'an admin of the organisation can allow it',
  operator: 'who runs the installation can allow it',
  reviewer: 'a reviewer of the organisation can approve it',
  nobody: 'nobody can allow it',
};

export function refused({ rule, reason, ask }: Denied): AppError {
  return new AppError('egress_refused', {
    detail: `${reason} Rule: ${rule}. Whom to ask: ${WHOM[ask]}.`,
    facts: { rule, ask },
  });
}

export function mismatch(detail: string): AppError {
  return new AppError('egress_refused', {
    detail: `${detail} Rule: one host for each connection. Whom to ask: nobody; the request is not well-formed.`,
    facts: { rule: 'one host for each connection', ask: 'nobody' },
  });
}

/** A held request that is sent again is held again, so it may come soon. */
const RETRY_AFTER_SECONDS = 5;
export function refusedSecret(reason: string): AppError {
  return new AppError('egress_refused', {
    detail: `${reason} Rule: secrets are placed where their binding says. Whom to ask: who holds the keys of the organisation.`,
    facts: { rule: 'secrets are placed where their binding says', ask: 'admin' },
  });
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** In plain text, or as problem details for who asks for JSON. */
export function answerOf(thrown: unknown, accept: string | undefined): Answer {
  const { code, message, facts, kind } = asAppError(thrown);
  const isJson = accept !== undefined && /\bjson\b/i.test(accept);
  const body = isJson
    ? `${JSON.stringify({ type: 'about:blank', title: kind.title, status: kind.status, code, detail: message, ...facts })}\n`
    : `${kind.title}. ${message}\n`;
  return {
    status: kind.status,
    headers: {
      'content-type': isJson ? 'application/problem+json' : 'text/plain; charset=utf-8',
      'content-length': `${Buffer.byteLength(body)}`,
      'x-space-egress': code,
      ...(typeof facts['approval'] === 'string' ? { [TICKET_HEADER]: facts['approval'] } : {}),
      ...(code === 'approval_pending' ? { 'retry-after': `${RETRY_AFTER_SECONDS}` } : {}),
    },
    body,
  };
}
