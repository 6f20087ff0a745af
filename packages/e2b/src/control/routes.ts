/** The control API: which calls there are, and how each is answered. What is E2B's and not here is refused by name. */
import { type Input, MAX_FORK_COUNT, ROUTES } from '@space/contract';
import { parsePart } from '@space/http/parts';
import { E2bError } from '../errors.ts';
import { type E2bAnswer, type E2bCall, onSandbox } from './call.ts';
import { createSandbox } from './create.ts';
import { listFirstLogs, listLogs } from './logs.ts';
import { askedNetwork, networkBody, withNetwork } from './network.ts';
import {
  connectSandbox,
  forkSandbox,
  getMetrics,
  getSandbox,
  killSandbox,
  listSandboxes,
  pauseSandbox,
  refreshSandbox,
  resumeSandbox,
  setTimeoutOf,
} from './sandboxes.ts';
import { createSnapshot, listSnapshots } from './snapshots.ts';
import { buildStatus, requestBuild, startBuild, uploadLink } from './template-builds.ts';
import {
  assignTags,
  changeTemplate,
  deleteTemplate,
  findAlias,
  getTemplate,
  listTags,
  listTemplates,
  removeTags,
} from './templates.ts';

interface E2bRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  answer(call: E2bCall): Promise<E2bAnswer>;
}

const GET = (path: string, answer: E2bRoute['answer']): E2bRoute => ({ method: 'GET', path, answer });
const POST = (path: string, answer: E2bRoute['answer']): E2bRoute => ({ method: 'POST', path, answer });
const DELETE = (path: string, answer: E2bRoute['answer']): E2bRoute => ({ method: 'DELETE', path, answer });

export const ROUTES_OF_E2B: readonly E2bRoute[] = [
  POST('/sandboxes', (call) => createSandbox(call, 'v1')),
  POST('/v2/sandboxes', (call) => createSandbox(call, 'v2')),
  GET('/sandboxes', (call) => listSandboxes(call, 'v1')),
  GET('/v2/sandboxes', (call) => listSandboxes(call, 'v2')),
  GET('/sandboxes/:id', getSandbox),
  DELETE('/sandboxes/:id', killSandbox),
  POST('/sandboxes/:id/timeout', setTimeoutOf),
  POST('/sandboxes/:id/refreshes', refreshSandbox),
  POST('/sandboxes/:id/pause', pauseSandbox),
  POST('/sandboxes/:id/connect', (call) => connectSandbox(call, 'v1')),
  POST('/v2/sandboxes/:id/connect', (call) => connectSandbox(call, 'v2')),
  POST('/sandboxes/:id/resume', resumeSandbox),
  POST('/sandboxes/:id/fork', (call) => forkSandbox(call, MAX_FORK_COUNT)),
  POST('/sandboxes/:id/snapshots', createSnapshot),
  GET('/sandboxes/:id/metrics', getMetrics),
  GET('/sandboxes/:id/logs', listFirstLogs),
  GET('/v2/sandboxes/:id/logs', listLogs),
  { method: 'PUT', path: '/sandboxes/:id/network', answer: setNetwork },
  GET('/snapshots', listSnapshots),
  GET('/templates', listTemplates),
  GET('/v2/templates', listTemplates),
  GET('/templates/aliases/:alias', findAlias),
  POST('/v3/templates', requestBuild),
  GET('/templates/:id/files/:hash', uploadLink),
  POST('/v2/templates/:id/builds/:build', startBuild),
  GET('/templates/:id/builds/:build/status', buildStatus),
  POST('/templates/tags', assignTags),
  DELETE('/templates/tags', removeTags),
  GET('/templates/:id/tags', listTags),
  GET('/templates/:id', getTemplate),
  { method: 'PATCH', path: '/templates/:id', answer: changeTemplate },
  { method: 'PATCH', path: '/v2/templates/:id', answer: changeTemplate },
  DELETE('/templates/:id', deleteTemplate),
];

/** What is left out is cleared: it reaches the internet then, as one that says nothing. */
function setNetwork(call: E2bCall): Promise<E2bAnswer> {
  const asked = parsePart(networkBody, call.body, 'body') as Parameters<typeof askedNetwork>[0];
  const { platform, caller } = call;
  return onSandbox(call, async (id) => {
    await withNetwork(call, askedNetwork(asked), (network) => {
      const body = parsePart(ROUTES.updateSandbox.body.schema, { network }, 'body') as Pick<Update, 'network'>;
      return platform.useCases.updateSandbox(caller, { ...body, id });
    });
    return { status: 204 };
  });
}

type Update = Input<'updateSandbox'>;

/** Paths of theirs that nothing here answers, and why. The first that fits counts. */
const NOT_HERE: readonly (readonly [prefix: RegExp, message: string])[] = [
  [
    /^\/volumes/,
    'Volumes are not supported by this server. Keep files in the sandbox, which snapshots and forks copy.',
  ],
  [/^\/secrets/, 'Secrets are not managed by this API here. Use the API of this server: /v1/secrets.'],
  [
    /^(\/v[0-9])?\/templates/,
    'Templates are built here by POST /v3/templates and POST /v2/templates/{id}/builds/{id}.',
  ],
  [/^\/teams/, 'Teams are not told of by this API here.'],
];

export function notHere(method: string, path: string): E2bError {
  const known = NOT_HERE.find(([prefix]) => prefix.test(path));
  return known === undefined ? new E2bError(404, `no call ${method} ${path}`) : new E2bError(501, known[1]);
}
