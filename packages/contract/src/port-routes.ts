/** The routes of ports: raw connections, and shares. Previews over HTTP are no call of the API, but the guest's own. */
import { USE, WAKES } from './error-groups.ts';
import { json, noBody, nothing, type Route } from './route.ts';
import * as schemas from './schemas/index.ts';

export const PORT_ROUTES = {
  connectPort: {
    method: 'GET',
    path: '/v1/sandboxes/{id}/ports/{port}/tcp',
    action: 'port.use',
    summary: 'Connect to a TCP port inside a sandbox',
    description:
      'Send `Connection: Upgrade` and `Upgrade: tcp`; after the answer 101 the connection carries the bytes of the port, both ' +
      'ways, and each side ends by itself. It ends by a reset when the sandbox is paused or rewound, or the key is revoked. ' +
      'HTTP is reached as a preview at the URL that `/v1/capabilities` states, and, by programs that have a key, below ' +
      '`/v1/sandboxes/{id}/ports/{port}/http/`, with any method; WebSocket included. ' +
      WAKES,
    params: schemas.portParams,
    query: nothing,
    body: noBody,
    response: { kind: 'upgrade', protocol: 'tcp' },
    status: 101,
    errors: ['port_refused', 'port_busy', 'port_broken', ...USE],
  },
  createShare: {
    method: 'POST',
    path: '/v1/sandboxes/{id}/shares',
    action: 'share.manage',
    summary: 'Share a port of a sandbox by a token, which is in this answer only',
    description:
      'Who holds the token reaches that port, and nothing else: opened as `url`, or sent as the header `X-Space-Share`. It ' +
      'works until it expires, is revoked, or the sandbox is deleted; open connections then end within 2 seconds. A fork does ' +
      'not inherit it, and a rewind does not change it.',
    params: schemas.sandboxParams,
    query: nothing,
    body: json(schemas.createShareBody),
    response: json(schemas.createdShare),
    status: 201,
    errors: ['not_found', 'limit_reached'],
  },
  listShares: {
    method: 'GET',
    path: '/v1/sandboxes/{id}/shares',
    action: 'share.read',
    summary: 'List the shares of a sandbox that work, oldest first',
    description: 'A read: a paused sandbox stays paused.',
    params: schemas.sandboxParams,
    query: nothing,
    body: noBody,
    response: json(schemas.shareList),
    status: 200,
    errors: ['not_found'],
  },
  revokeShare: {
    method: 'DELETE',
    path: '/v1/sandboxes/{id}/shares/{shareId}',
    action: 'share.manage',
    summary: 'Revoke a share, at once and for good',
    description: 'Connections by it end within 2 seconds.',
    params: schemas.shareParams,
    query: nothing,
    body: noBody,
    response: noBody,
    status: 204,
    errors: ['not_found'],
  },
} as const satisfies Record<string, Route>;
