/** The routes of what sandboxes may reach, and of what they did. */
import { json, noBody, nothing, type Route } from './route.ts';
import * as schemas from './schemas/index.ts';

export const NETWORK_ROUTES = {
  getNetwork: {
    method: 'GET',
    path: '/v1/network',
    action: 'network.read',
    summary: 'The constraints of the organisation: the widest that any of its sandboxes may reach',
    params: nothing,
    query: nothing,
    body: noBody,
    response: json(schemas.networkConstraints),
    status: 200,
    errors: [],
  },
  setNetwork: {
    method: 'PUT',
    path: '/v1/network',
    action: 'network.manage',
    summary: 'Set the constraints of the organisation',
    description:
      'They stand above the policy of every sandbox from then on: what is open and not allowed any more is cut within 2 ' +
      'seconds. A policy that is wider is refused when it is set, and never made narrower.',
    params: nothing,
    query: nothing,
    body: json(schemas.setNetworkBody),
    response: json(schemas.networkConstraints),
    status: 200,
    errors: [],
  },
  setPrivateHosts: {
    method: 'PUT',
    path: '/v1/organisations/{id}/private-hosts',
    action: 'organisation.manage',
    summary: 'Say which hosts sandboxes of an organisation may reach at private addresses, where their rules allow it',
    description:
      'Private are loopback, private and shared ranges. Addresses of metadata services, link-local and reserved ones are ' +
      'never reached.',
    params: schemas.organisationParams,
    query: nothing,
    body: json(schemas.privateHostsBody),
    response: json(schemas.networkConstraints),
    status: 200,
    errors: ['not_found'],
  },
  listEgress: {
    method: 'GET',
    path: '/v1/sandboxes/{id}/egress',
    action: 'sandbox.read',
    summary: 'What left a sandbox or was refused, newest first',
    description:
      'One record for each request that the gateway could read, and for each connection that it could not. No query, header ' +
      'or body is kept. Records come within seconds, and stay for 30 days, of a sandbox at most 10,000.',
    params: schemas.sandboxParams,
    query: schemas.pageQuery,
    body: noBody,
    response: json(schemas.egressList),
    status: 200,
    errors: ['not_found'],
  },
} as const satisfies Record<string, Route>;
