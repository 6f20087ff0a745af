/**
 * How each route of the contract is answered: most by the use-case of the same name. The types hold the table complete: a
 * route that is added to the contract does not compile until it is answered here.
 */
import { buildOpenApi, type ForkResults, ROUTES, type RouteName } from '@space/contract';
import { readBody } from './body.ts';
import type { Call } from './call.ts';
import { FILE_ANSWERS } from './file-answers.ts';
import { sendEvents } from './ndjson.ts';
import { SHARE_PARAMETER } from './ports/credentials.ts';
import { upgradeRequired } from './ports/ports-face.ts';
import { previewUrl } from './ports/preview-names.ts';
import { TEMPLATE_ANSWERS } from './template-answers.ts';
import { toExecWireEvent, toProcess } from './wire.ts';

/** The body of the answer; or, when the answer was streamed, nothing. */
export type Answer = { readonly body?: unknown; readonly status?: number } | 'streamed';

export type Answers = { readonly [N in RouteName]: (call: Call<N>) => Promise<Answer> };

export const ANSWERS: Answers = {
  createSandbox: async ({ useCases, caller, input }) => ({ body: await useCases.createSandbox(caller, input) }),
  listSandboxes: async ({ useCases, caller, input }) => ({ body: await useCases.listSandboxes(caller, input) }),
  getSandbox: async ({ useCases, caller, input }) => ({ body: await useCases.getSandbox(caller, input) }),
  getSandboxMetrics: async ({ useCases, caller, input }) => ({ body: await useCases.getSandboxMetrics(caller, input) }),
  getSandboxConsole: async ({ useCases, caller, input }) => ({ body: await useCases.getSandboxConsole(caller, input) }),
  updateSandbox: async ({ useCases, caller, input }) => ({ body: await useCases.updateSandbox(caller, input) }),
  deleteSandbox: async ({ useCases, caller, input }) => {
    await useCases.deleteSandbox(caller, input);
    return {};
  },

  exportSandbox: async ({ useCases, caller, input }) => ({ body: await useCases.exportSandbox(caller, input) }),
  followExport: async (call) => {
    await sendEvents('followExport', call, call.useCases.followExport(call.caller, call.input));
    return 'streamed';
  },
  listArchives: async ({ useCases, caller, input }) => ({ body: await useCases.listArchives(caller, input) }),
  deleteArchive: async ({ useCases, caller, input }) => {
    await useCases.deleteArchive(caller, input);
    return {};
  },
  moveSandbox: async ({ useCases, caller, input }) => ({ body: await useCases.moveSandbox(caller, input) }),
  undoMove: async ({ useCases, caller, input }) => ({ body: await useCases.undoMove(caller, input) }),
  importSandbox: async ({ useCases, caller, input }) => ({ body: await useCases.importSandbox(caller, input) }),

  exec: async (call) => {
    await sendEvents('exec', call, map(call.useCases.exec(call.caller, call.input), toExecWireEvent));
    return 'streamed';
  },
  startProcess: async ({ useCases, caller, input }) => ({ body: await useCases.startProcess(caller, input) }),
  attachProcess: async (call) => {
    const events = call.useCases.attachProcess(call.caller, call.input);
    await sendEvents('attachProcess', call, map(events, toExecWireEvent));
    return 'streamed';
  },
  writeInput: async ({ useCases, caller, input, request, server }) => {
    const body = readBody(request, { idleMs: server.uploadIdleMs });
    return { body: await useCases.writeInput(caller, input, body) };
  },
  resizeTerminal: async ({ useCases, caller, input }) => {
    await useCases.resizeTerminal(caller, input);
    return {};
  },
  listProcesses: async ({ useCases, caller, input }) => {
    const processes = await useCases.listProcesses(caller, input);
    return { body: { processes: processes.map(toProcess) } };
  },
  signalProcess: async ({ useCases, caller, input }) => {
    await useCases.signalProcess(caller, input);
    return {};
  },

  ...FILE_ANSWERS,
  ...TEMPLATE_ANSWERS,

  createSchedule: async ({ useCases, caller, input }) => ({ body: await useCases.createSchedule(caller, input) }),
  listSchedules: async ({ useCases, caller, input }) => ({ body: await useCases.listSchedules(caller, input) }),
  getSchedule: async ({ useCases, caller, input }) => ({ body: await useCases.getSchedule(caller, input) }),
  updateSchedule: async ({ useCases, caller, input }) => ({ body: await useCases.updateSchedule(caller, input) }),
  deleteSchedule: async ({ useCases, caller, input }) => {
    await useCases.deleteSchedule(caller, input);
    return {};
  },

  connectPort: async () => {
    // Asked for rightly, it is answered beside the framework (see `ports-face.ts`).
    throw upgradeRequired();
  },
  createShare: async ({ useCases, caller, input, request, server }) => {
    const share = await useCases.createShare(caller, input);
    const { token, sandbox: sandboxId, port } = share;
    const url = previewUrl(server.previewTemplate(request), { sandboxId, port });
    return { body: { ...share, url: url === null || token === null ? null : `${url}/?${SHARE_PARAMETER}=${token}` } };
  },
  listShares: async ({ useCases, caller, input }) => ({ body: await useCases.listShares(caller, input) }),
  revokeShare: async ({ useCases, caller, input }) => {
    await useCases.revokeShare(caller, input);
    return {};
  },

  pauseSandbox: async ({ useCases, caller, input }) => ({ body: await useCases.pauseSandbox(caller, input) }),
  resumeSandbox: async ({ useCases, caller, input }) => ({ body: await useCases.resumeSandbox(caller, input) }),
  takeSnapshot: async ({ useCases, caller, input }) => ({ body: await useCases.takeSnapshot(caller, input) }),
  getTimeline: async ({ useCases, caller, input }) => ({ body: await useCases.getTimeline(caller, input) }),
  forkSandbox: async (call) => ({ body: await fork(call) }),
  rewindSandbox: async ({ useCases, caller, input }) => ({ body: await useCases.rewindSandbox(caller, input) }),

  listSnapshots: async ({ useCases, caller, input }) => ({ body: await useCases.listSnapshots(caller, input) }),
  getSnapshot: async ({ useCases, caller, input }) => ({ body: await useCases.getSnapshot(caller, input) }),
  updateSnapshot: async ({ useCases, caller, input }) => ({ body: await useCases.updateSnapshot(caller, input) }),
  deleteSnapshot: async ({ useCases, caller, input }) => {
    await useCases.deleteSnapshot(caller, input);
    return {};
  },

  listOperations: async ({ useCases, caller, input }) => ({ body: await useCases.listOperations(caller, input) }),
  getOperation: async ({ useCases, caller, input }) => ({ body: await useCases.getOperation(caller, input) }),

  listEvents: async (call) => {
    await sendEvents('listEvents', call, withEnd(call.useCases.listEvents(call.caller, call.input)));
    return 'streamed';
  },
  listAudit: async ({ useCases, caller, input }) => ({ body: await useCases.listAudit(caller, input) }),
  verifyAudit: async ({ useCases, caller, input }) => ({ body: await useCases.verifyAudit(caller, input) }),
  exportAudit: async (call) => {
    await sendEvents('exportAudit', call, withEnd(call.useCases.exportAudit(call.caller, call.input)));
    return 'streamed';
  },

  listProjects: async ({ useCases, caller, input }) => ({ body: await useCases.listProjects(caller, input) }),
  createProject: async ({ useCases, caller, input }) => ({ body: await useCases.createProject(caller, input) }),
  getProject: async ({ useCases, caller, input }) => ({ body: await useCases.getProject(caller, input) }),
  updateProject: async ({ useCases, caller, input }) => ({ body: await useCases.updateProject(caller, input) }),
  deleteProject: async ({ useCases, caller, input }) => {
    await useCases.deleteProject(caller, input);
    return {};
  },
  listKeys: async ({ useCases, caller, input }) => ({ body: await useCases.listKeys(caller, input) }),
  createKey: async ({ useCases, caller, input }) => ({ body: await useCases.createKey(caller, input) }),
  revokeKey: async ({ useCases, caller, input }) => {
    await useCases.revokeKey(caller, input);
    return {};
  },
  listOrganisations: async ({ useCases, caller, input }) => ({ body: await useCases.listOrganisations(caller, input) }),
  createOrganisation: async ({ useCases, caller, input }) => ({
    body: await useCases.createOrganisation(caller, input),
  }),

  updateOrganisation: async ({ useCases, caller, input }) => ({
    body: await useCases.updateOrganisation(caller, input),
  }),
  setLimits: async ({ useCases, caller, input }) => ({ body: await useCases.setLimits(caller, input) }),
  getLimits: async ({ useCases, caller, input }) => ({ body: await useCases.getLimits(caller, input) }),

  getNetwork: async ({ useCases, caller, input }) => ({ body: await useCases.getNetwork(caller, input) }),
  setNetwork: async ({ useCases, caller, input }) => ({ body: await useCases.setNetwork(caller, input) }),
  setPrivateHosts: async ({ useCases, caller, input }) => ({ body: await useCases.setPrivateHosts(caller, input) }),
  getWebhook: async ({ useCases, caller, input }) => ({ body: await useCases.getWebhook(caller, input) }),
  setWebhook: async ({ useCases, caller, input }) => ({ body: await useCases.setWebhook(caller, input) }),
  removeWebhook: async ({ useCases, caller, input }) => {
    await useCases.removeWebhook(caller, input);
    return {};
  },
  listApprovals: async ({ useCases, caller, input }) => ({ body: await useCases.listApprovals(caller, input) }),
  getApproval: async ({ useCases, caller, input }) => ({ body: await useCases.getApproval(caller, input) }),
  approveRequest: async ({ useCases, caller, input }) => ({ body: await useCases.approveRequest(caller, input) }),
  getSealingKey: async ({ useCases, caller, input }) => ({ body: await useCases.getSealingKey(caller, input) }),
  listVaults: async ({ useCases, caller, input }) => ({ body: await useCases.listVaults(caller, input) }),
  createVault: async ({ useCases, caller, input }) => ({ body: await useCases.createVault(caller, input) }),
  getVault: async ({ useCases, caller, input }) => ({ body: await useCases.getVault(caller, input) }),
  updateVault: async ({ useCases, caller, input }) => ({ body: await useCases.updateVault(caller, input) }),
  rotateVaultKey: async ({ useCases, caller, input }) => ({ body: await useCases.rotateVaultKey(caller, input) }),
  revokeVault: async ({ useCases, caller, input }) => ({ body: await useCases.revokeVault(caller, input) }),
  reinstateVault: async ({ useCases, caller, input }) => ({ body: await useCases.reinstateVault(caller, input) }),
  deleteVault: async ({ useCases, caller, input }) => ({ body: await useCases.deleteVault(caller, input) }),
  listSecrets: async ({ useCases, caller, input }) => ({ body: await useCases.listSecrets(caller, input) }),
  setSecret: async ({ useCases, caller, input }) => ({ body: await useCases.setSecret(caller, input) }),
  deleteSecret: async ({ useCases, caller, input }) => ({ body: await useCases.deleteSecret(caller, input) }),
  listSecretBindings: async ({ useCases, caller, input }) => ({
    body: await useCases.listSecretBindings(caller, input),
  }),
  setSecretBinding: async ({ useCases, caller, input }) => ({ body: await useCases.setSecretBinding(caller, input) }),
  deleteSecretBinding: async ({ useCases, caller, input }) => ({
    body: await useCases.deleteSecretBinding(caller, input),
  }),
  denyRequest: async ({ useCases, caller, input }) => ({ body: await useCases.denyRequest(caller, input) }),
  listEgress: async ({ useCases, caller, input }) => ({ body: await useCases.listEgress(caller, input) }),

  listTemplates: async ({ useCases, caller, input }) => ({ body: await useCases.listTemplates(caller, input) }),
  getMetrics: async ({ useCases, caller, input, response }) => {
    response.setHeader('content-type', ROUTES.getMetrics.response.contentType);
    return { body: Buffer.from(await useCases.getMetrics(caller, input)) };
  },
  getWelcome: async ({ server }) => ({
    body: {
      name: 'SPACE',
      version: server.version,
      api: ROUTES.getOpenApi.path,
      health: ROUTES.getHealth.path,
      readiness: ROUTES.getReadiness.path,
      nextStep: 'Read the API description, or use the SDK or the CLI; README.md says how to begin.',
    },
  }),
  getCapabilities: async ({ useCases, caller, input, request, server }) => {
    const previews = { url: server.previewTemplate(request) };
    return { body: { ...(await useCases.getCapabilities(caller, input)), previews } };
  },
  getHealth: async ({ server }) => ({ body: { status: 'ok', version: server.version } }),
  getReadiness: async ({ useCases }) => {
    const body = await useCases.readiness();
    return { body, status: body.ready ? 200 : 503 };
  },
  getOpenApi: async () => ({ body: openApi() }),
};

let builtOpenApi: object | undefined;

function openApi(): object {
  builtOpenApi ??= buildOpenApi();
  return builtOpenApi;
}

async function fork({ useCases, caller, input, server }: Call<'forkSandbox'>): Promise<ForkResults> {
  const results = await useCases.forkSandbox(caller, input);
  return {
    results: results.map((result) =>
      'error' in result ? { problem: server.explain(result.error, caller.requestId) } : { sandbox: result.sandbox },
    ),
  };
}

async function* map<A, B>(items: AsyncIterable<A>, change: (item: A) => B): AsyncGenerator<B> {
  for await (const item of items) yield change(item);
}

async function* withEnd<A>(items: AsyncIterable<A>): AsyncGenerator<A | { readonly type: 'end' }> {
  yield* items;
  yield { type: 'end' };
}
