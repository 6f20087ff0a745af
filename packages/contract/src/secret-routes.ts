/** The routes of secrets and their bindings. */
import { json, noBody, nothing, type Route } from './route.ts';
import * as schemas from './schemas/index.ts';

const NO_ANSWER = { response: noBody, status: 204 } as const;

export const SECRET_ROUTES = {
  getSealingKey: {
    method: 'GET',
    path: '/v1/sealing-key',
    action: 'secret.manage',
    summary: 'The key that values of secrets are sealed with, so that only the gateway can read them',
    params: nothing,
    query: nothing,
    body: noBody,
    response: json(schemas.sealingKey),
    status: 200,
    errors: [],
  },
  listSecrets: {
    method: 'GET',
    path: '/v1/secrets',
    action: 'secret.read',
    summary: 'List the secrets of the organisation, by name; no value is in any answer',
    params: nothing,
    query: nothing,
    body: noBody,
    response: json(schemas.secretList),
    status: 200,
    errors: [],
  },
  setSecret: {
    method: 'PUT',
    path: '/v1/secrets/{id}',
    action: 'secret.manage',
    summary: 'Set a secret: a value that was sealed, or where the value comes from',
    description:
      'The next request that it is placed in has the new value. Values are kept by the gateway, encrypted, and by nobody else.',
    params: schemas.secretParams,
    query: nothing,
    body: json(schemas.setSecretBody),
    response: json(schemas.secret),
    status: 200,
    errors: ['limit_reached'],
  },
  deleteSecret: {
    method: 'DELETE',
    path: '/v1/secrets/{id}',
    action: 'secret.manage',
    summary:
      'Delete a secret, its value, and its bindings: nothing is given it any more, and what goes on with it is cut',
    params: schemas.secretParams,
    query: nothing,
    body: noBody,
    ...NO_ANSWER,
    errors: ['not_found'],
  },
  listSecretBindings: {
    method: 'GET',
    path: '/v1/secret-bindings',
    action: 'binding.read',
    summary: 'List bindings: those that the project may use; with a role for secrets, all of the organisation',
    params: nothing,
    query: nothing,
    body: noBody,
    response: json(schemas.secretBindingList),
    status: 200,
    errors: [],
  },
  setSecretBinding: {
    method: 'PUT',
    path: '/v1/secret-bindings/{id}',
    action: 'secret.manage',
    summary: 'Set a binding: which requests a secret is placed in, where, and for whose sandboxes',
    description:
      'It holds for the next request of each sandbox that names it. A secret is placed in TLS to a host that was verified, and ' +
      'beside no credential of the sandbox; where two bindings are for one request, it is refused.',
    params: schemas.secretParams,
    query: nothing,
    body: json(schemas.setBindingBody),
    response: json(schemas.secretBinding),
    status: 200,
    errors: ['not_found', 'limit_reached'],
  },
  deleteSecretBinding: {
    method: 'DELETE',
    path: '/v1/secret-bindings/{id}',
    action: 'secret.manage',
    summary: 'Delete a binding: what goes on with it is cut',
    params: schemas.secretParams,
    query: nothing,
    body: noBody,
    ...NO_ANSWER,
    errors: ['not_found'],
  },
} as const satisfies Record<string, Route>;
