/** The routes of approvals: what waits for a reviewer, and the decision. */
import { json, noBody, nothing, type Route } from './route.ts';
import * as schemas from './schemas/index.ts';

export const APPROVAL_ROUTES = {
  listApprovals: {
    method: 'GET',
    path: '/v1/approvals',
    action: 'approval.read',
    summary: 'List requests that wait for a reviewer, and what became of earlier ones, newest first',
    description: 'They stay for 30 days. The stream of events tells of each step of each (`approval.…`).',
    params: nothing,
    query: schemas.approvalsQuery,
    body: noBody,
    response: json(schemas.approvalList),
    status: 200,
    errors: ['not_found'],
  },
  getApproval: {
    method: 'GET',
    path: '/v1/approvals/{id}',
    action: 'approval.read',
    summary: 'Get one, with all that would be sent',
    params: schemas.approvalParams,
    query: nothing,
    body: noBody,
    response: json(schemas.approvalDetail),
    status: 200,
    errors: ['not_found'],
  },
  approveRequest: {
    method: 'POST',
    path: '/v1/approvals/{id}/approve',
    action: 'approval.decide',
    summary: 'Approve a request: exactly it leaves, once',
    description:
      'When it is held still it leaves now, else when it is sent again within 15 minutes. A point of the sandbox is taken right ' +
      'before. Only keys with the role `reviewer` may; the keys of admins and developers may not.',
    params: schemas.approvalParams,
    query: nothing,
    body: json(schemas.decisionBody),
    response: json(schemas.approvalDetail),
    status: 200,
    errors: ['not_found', 'approval_ended'],
  },
  denyRequest: {
    method: 'POST',
    path: '/v1/approvals/{id}/deny',
    action: 'approval.decide',
    summary: 'Deny a request: it does not leave, and is not asked for again for 15 minutes',
    params: schemas.approvalParams,
    query: nothing,
    body: json(schemas.decisionBody),
    response: json(schemas.approvalDetail),
    status: 200,
    errors: ['not_found', 'approval_ended'],
  },
} as const satisfies Record<string, Route>;
