/** Requests of sandboxes that wait for a reviewer. Only keys with the role `reviewer` decide. */
import type { ApprovalDetail, ApprovalList, Webhook, WebhookSet } from '@space/contract';
import { refuseUnknown } from './options.ts';
import { pagesOf } from './pages.ts';
import { type CallOptions, type ConnectionOptions, signalOf, Transport, withoutConnection } from './transport.ts';

export type { ApprovalDetail, Webhook, WebhookSet };
export type Approval = ApprovalList['approvals'][number];
export type ApprovalState = Approval['state'];

type Options = ConnectionOptions & CallOptions;

export interface ListApprovalsOptions extends Options {
  /** Only those of this sandbox (id or name). */
  readonly sandbox?: string;
  readonly state?: ApprovalState;
}

export interface DecideOptions extends Options {
  /** For the record; the program in the sandbox is told it when the request is denied. */
  readonly reason?: string;
}

/** Newest first. */
export async function* listApprovals(options: ListApprovalsOptions = {}): AsyncGenerator<Approval> {
  const { sandbox, state, signal, ...unknown } = withoutConnection(options);
  refuseUnknown(unknown);
  const query = { ...(sandbox === undefined ? {} : { sandbox }), ...(state === undefined ? {} : { state }) };
  for await (const { approvals } of pagesOf<ApprovalList>(new Transport(options), '/v1/approvals', query, signal)) {
    yield* approvals;
  }
}

/** One, with all that would be sent. Errors: `not_found`. */
export async function getApproval(id: string, options: Options = {}): Promise<ApprovalDetail> {
  const path = `/v1/approvals/${encodeURIComponent(id)}`;
  return new Transport(options).json({ method: 'GET', path, signal: signalOf(options) });
}

/** Exactly that request leaves, once. Errors: `forbidden`, `not_found`, `approval_ended`. */
export function approve(id: string, options: DecideOptions = {}): Promise<ApprovalDetail> {
  return decide(id, 'approve', options);
}

/** It does not leave, and is not asked for again for 15 minutes. Errors: `forbidden`, `not_found`, `approval_ended`. */
export function deny(id: string, options: DecideOptions = {}): Promise<ApprovalDetail> {
  return decide(id, 'deny', options);
}

async function decide(id: string, decision: 'approve' | 'deny', options: DecideOptions): Promise<ApprovalDetail> {
  const { reason, signal, ...unknown } = withoutConnection(options);
  refuseUnknown(unknown);
  const path = `/v1/approvals/${encodeURIComponent(id)}/${decision}`;
  return new Transport(options).json({ method: 'POST', path, json: reason === undefined ? {} : { reason }, signal });
}

/** What an organisation has told of requests that wait. Errors: `not_found` when it has none. */
export async function getWebhook(options: Options = {}): Promise<Webhook> {
  return new Transport(options).json({ method: 'GET', path: '/v1/webhook', signal: signalOf(options) });
}

/** `secretKey` is what notices are signed by, as Standard Webhooks are; it belongs to the address. For admins. */
export async function setWebhook(url: string, options: Options = {}): Promise<WebhookSet> {
  return new Transport(options).json({ method: 'PUT', path: '/v1/webhook', json: { url }, signal: signalOf(options) });
}

export async function removeWebhook(options: Options = {}): Promise<void> {
  await new Transport(options).done({ method: 'DELETE', path: '/v1/webhook', signal: signalOf(options) });
}
