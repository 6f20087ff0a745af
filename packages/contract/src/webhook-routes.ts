/** The routes of the webhook of an organisation. */
import { json, noBody, nothing, type Route } from './route.ts';
import * as schemas from './schemas/index.ts';

export const WEBHOOK_ROUTES = {
  getWebhook: {
    method: 'GET',
    path: '/v1/webhook',
    action: 'network.read',
    summary: 'Whom the organisation has told of requests that wait for a reviewer',
    params: nothing,
    query: nothing,
    body: noBody,
    response: json(schemas.webhook),
    status: 200,
    errors: ['not_found'],
  },
  setWebhook: {
    method: 'PUT',
    path: '/v1/webhook',
    action: 'network.manage',
    summary: 'Have an address told of requests that wait for a reviewer',
    description:
      'Each is told by a POST of JSON, `approval.requested`, signed as Standard Webhooks are: what is asked for, without query, ' +
      'headers and body. It is tried again while the request waits, so it may come twice; `webhook-id` is that of the approval. ' +
      'It is sent by the gateway, follows no redirect, and decides nothing.',
    params: nothing,
    query: nothing,
    body: json(schemas.setWebhookBody),
    response: json(schemas.webhookSet),
    status: 200,
    errors: [],
  },
  removeWebhook: {
    method: 'DELETE',
    path: '/v1/webhook',
    action: 'network.manage',
    summary: 'Tell nobody any more',
    params: nothing,
    query: nothing,
    body: noBody,
    response: noBody,
    status: 204,
    errors: [],
  },
} as const satisfies Record<string, Route>;
