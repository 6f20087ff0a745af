/**
 * Control: the use-cases of the contract over a node and records. It holds no state of its own that matters: a new control
 * on the same records goes on where an earlier one died.
 */
import type { Caller, UseCases } from '@space/contract';
import type { ApiKeyId, GatewayPort, PortConnection, SandboxId, ShareId } from '@space/core';
import { Access, type Reach } from './access.ts';
import { ActivityLog } from './activity.ts';
import { Admission } from './admission.ts';
import { type Identity, identify } from './api-keys.ts';
import { Approvals } from './approvals.ts';
import { ArchiveCollector } from './archive-collector.ts';
import { ArchiveUseCases, checkReach } from './archive-use-cases.ts';
import { Audit } from './audit.ts';
import { Nursery } from './birth.ts';
import { Chain } from './chain.ts';
import { Checkpoints } from './checkpoints.ts';
import { Collector } from './collector.ts';
import { Contents, sealing } from './contents.ts';
import { Driver } from './driver.ts';
import { Effects } from './effects.ts';
import { EventUseCases } from './event-use-cases.ts';
import { Expiries } from './expiries.ts';
import { FileUseCases } from './file-use-cases.ts';
import { Gate, type InnerUseCases } from './gate.ts';
import { GrantWatch } from './grant-watch.ts';
import { GuestUseCases } from './guest-use-cases.ts';
import { IdempotentCalls } from './idempotency.ts';
import { IdlePauses } from './idle-pauses.ts';
import { LifecycleUseCases } from './lifecycle-use-cases.ts';
import { Metrics } from './metrics.ts';
import { Moves } from './moves.ts';
import { Network } from './network.ts';
import { Notices } from './notices.ts';
import { OperationUseCases } from './operation-use-cases.ts';
import { PauseFailures } from './pause-failures.ts';
import { PortUseCases } from './port-use-cases.ts';
import type { ControlPorts } from './ports.ts';
import { ProjectPurge } from './project-purge.ts';
import { type ReconcileReport, Reconciler } from './reconcile.ts';
import { RegularArchives } from './regular-archives.ts';
import { Relief } from './relief.ts';
import { Retracer } from './retrace.ts';
import { RollingPoints } from './rolling.ts';
import { listRuns, type RunsList, type RunsListAsked } from './runs-list.ts';
import { Sampler } from './sampler.ts';
import { ScheduleRuns } from './schedule-runs.ts';
import { ScheduleUseCases } from './schedule-use-cases.ts';
import { Scrubber } from './scrubber.ts';
import { SecretUseCases } from './secret-use-cases.ts';
import { SetWakes } from './set-wakes.ts';
import { type SharedPort, Shares } from './shares.ts';
import { SnapshotUseCases } from './snapshot-use-cases.ts';
import { TemplateBuilds } from './template-builds.ts';
import { TemplateUseCases } from './template-use-cases.ts';
import { TenantUseCases } from './tenant-use-cases.ts';
import { Pins } from './timeline.ts';
import { eachInTurn, settledWithin } from './turns.ts';
import { UploadTickets } from './upload-tickets.ts';
import { VaultHalt } from './vault-halt.ts';
import { VaultKeys } from './vault-keys.ts';
import { VaultLease } from './vault-lease.ts';
import { VaultUseCases } from './vault-use-cases.ts';
import { Vaults } from './vaults.ts';
import { viewEgress } from './views.ts';
import { Watch } from './watch.ts';

const TIDY_MS = 1_000;
/** Their sandboxes are deleted; what is left, the next start deletes. */
const BUILDS_END_MS = 10_000;
/** How long the journal tells of operations that nobody asked for. */
const UNASKED_KEPT_MS = 7 * 24 * 60 * 60 * 1000;

/** Connections end when the share does, or by the signal. */
interface OpenedShare {
  readonly expiresAt: Date;
  connect(signal: AbortSignal): Promise<PortConnection>;
}

export interface Control extends UseCases {
  /**
   * Reconciles once, then at intervals, when VMs end, and when the node is back. Throws when the records do not answer;
   * a node that does not answer yet is waited for in the background, and the report is null.
   */
  start(): Promise<ReconcileReport | null>;
  /** Pauses a sandbox of whatever project, for the platform itself. */
  pauseUnasked(id: SandboxId): Promise<void>;
  /** Refuses new operations, and waits for those in flight for at most 20 s; the next start ends the rest. */
  close(): Promise<void>;
  /**
   * Whose key it is, and the project that the request means: the one it names (id or name), else the key's only one, or
   * the first of its organisation. Null when the key is none of ours or revoked; throws `not_found` for another project.
   */
  authenticate(apiKey: string, project?: string): Promise<Identity | null>;
  /** See `Access`. */
  tokenFor(caller: Pick<Caller, 'principal' | 'projectId'>, sandbox: string): Promise<string>;
  reach(id: SandboxId): Promise<Reach | null>;
  findByToken(isIt: (token: string) => boolean, limit: number): Promise<SandboxId | null>;
  listRuns(caller: Pick<Caller, 'principal' | 'projectId'>, asked: RunsListAsked): Promise<RunsList>;
  /** See `UploadTickets`. */
  readonly uploads: Pick<UploadTickets, 'ticketFor' | 'redeem'>;
  /** Null: the ports of that sandbox are not public. */
  openPublic(target: SharedPort): Promise<Pick<OpenedShare, 'connect'> | null>;
  /** What the token of a share opens; null when it is not good for that port, and nothing says why not. */
  openShare(token: string, target: SharedPort): Promise<OpenedShare | null>;
}

export function createControl(given: ControlPorts, gateway: GatewayPort): Control {
  const network = new Network(given, gateway);
  const vaultKeys = new VaultKeys(given);
  const vaults = new Vaults(given, vaultKeys);
  const contents = new Contents(given, vaultKeys, (vault) => vaults.ensureOpen(vault));
  const ports: ControlPorts = {
    ...given,
    node: vaults.before(network.before(given.node)),
    records: sealing(given.records, contents),
  };
  const pins = new Pins();
  const metrics = new Metrics();
  const sampler = new Sampler(ports);
  const reconciler: Reconciler = new Reconciler(ports, (operationId) => driver.owns(operationId), metrics, vaults);
  const driver = new Driver(
    ports,
    metrics,
    (orphan) => reconciler.recover(orphan),
    ({ vault }) => vaultKeys.requireUsable(vault),
  );
  const admission = new Admission(ports);
  const effects = new Effects(ports, admission);
  const nursery = new Nursery(ports, driver, admission);
  const { logger } = ports;
  const keys = new GrantWatch<ApiKeyId>({
    endedAmong: (ids) => ports.records.tenants.revokedAmong(ids),
    end: 'The key was revoked.',
    logger,
  });
  const sharesInUse = new GrantWatch<ShareId>({
    endedAmong: (ids) => ports.records.shares.endedAmong(ids, new Date(ports.clock.now())),
    end: 'The share has ended.',
    logger,
  });
  const audit = new Audit(ports);
  const chain = new Chain(ports);
  const retracer = new Retracer(ports, {
    recover: (orphan) => reconciler.recover(orphan),
    forkMore: (...more) => sandboxes.forkMore(...more),
  });
  const calls = new IdempotentCalls(
    ports,
    (name, call, operations) => retracer.retrace(name, call, operations),
    contents,
  );
  const activity = new ActivityLog(ports.clock);
  const machinery = { ports, activity, driver, effects, nursery, pins, network, vaults };
  const sandboxes: LifecycleUseCases = new LifecycleUseCases(machinery);
  const pauseFailures = new PauseFailures(ports);
  const idlePauses = new IdlePauses(machinery, sandboxes, pauseFailures);
  const setWakes = new SetWakes(machinery);
  const expiries = new Expiries(machinery, pauseFailures);
  const scheduleRuns = new ScheduleRuns(machinery);
  const schedules = new ScheduleUseCases(ports, sandboxes);
  const collector = new Collector(machinery);
  const relief = new Relief(machinery, collector);
  const rolling = new RollingPoints(machinery, collector);
  const archiveCollector = new ArchiveCollector(ports);
  const regularArchives = new RegularArchives(machinery, archiveCollector);
  const approvals = new Approvals(machinery, gateway);
  const notices = new Notices(ports, gateway);
  const scrubber = new Scrubber(ports, vaults);
  const checkpoints = new Checkpoints(machinery);
  const guests = new GuestUseCases(machinery, sandboxes, { calls, checkpoints });
  const files = new FileUseCases(machinery, sandboxes);
  const shares = new Shares(ports, sandboxes, (id) => sharesInUse.revoked(id));
  const portUses = new PortUseCases(machinery, sandboxes, sharesInUse);
  const access = new Access(machinery, sandboxes, portUses);
  const builds = new TemplateBuilds(machinery);
  const templates = new TemplateUseCases(machinery, builds);
  const snapshots = new SnapshotUseCases(machinery, sandboxes, { gateway, templates });
  const secrets = new SecretUseCases(ports, gateway, network);
  const archives = new ArchiveUseCases(machinery, sandboxes, archiveCollector);
  const moves = new Moves(machinery, { sandboxes, archives, collector: archiveCollector });
  const events = new EventUseCases(ports);
  const operations = new OperationUseCases(ports);
  const purge = new ProjectPurge(machinery);
  const tenants = new TenantUseCases(ports, keys, purge);
  const halt = new VaultHalt({
    ports,
    keys: vaultKeys,
    pause: (id) => sandboxes.pauseUnasked(id),
    close: async (vault) => {
      await vaults.close(vault, { endLives: true });
      // What ran is recorded as what it is now.
      await reconciler.reconcile();
    },
  });
  const lease = new VaultLease({ ports, keys: vaultKeys, halt, opened: () => vaults.opened() });
  const vaultUses = new VaultUseCases(ports, {
    keys: vaultKeys,
    halt,
    remove: async (id) => void (await driver.perform(id, 'delete', effects.delete())),
  });
  const watch = new Watch(ports, reconciler, driver, {
    dropOld: () =>
      eachInTurn([
        () => calls.dropOld(),
        () => audit.closeLeft(),
        () => chain.dropOld(),
        () => events.dropOld(),
        () => ports.records.history.dropUnasked(new Date(ports.clock.now() - UNASKED_KEPT_MS)),
        () => ports.records.shares.dropExpired(new Date(ports.clock.now())),
        () => purge.round(),
        () => network.dropOld(),
        () => approvals.dropOld(),
        () => builds.round(),
      ]),
    checkpoint: () => checkpoints.round(),
    scrub: () => scrubber.round(),
    closeUnused: () => vaults.closeUnused(),
    async roll() {
      const all = await ports.records.allSandboxes();
      await rolling.round(all);
      collector.round(all);
      await regularArchives.round(all);
      await archiveCollector.round();
    },
    relieve: (vault, availableBytes) => relief.begin(vault, availableBytes),
    async sample() {
      const all = await ports.records.allSandboxes();
      idlePauses.round(all, await sampler.sample(all));
    },
    lookAfterKeys: () =>
      eachInTurn([() => lease.round(), () => vaultUses.goOnRemoving(), () => vaultKeys.tellHeaders()]),
    watchGateway: () => network.round(),
    followAsks: () => approvals.follow(),
    link: () => chain.round(),
    async lookAtAsks() {
      await approvals.round();
      await notices.round();
    },
    lookAtClock: () => eachInTurn([() => setWakes.round(), () => expiries.round(), () => scheduleRuns.round()]),
  });

  let forgetting = (): void => undefined;
  const useCases: InnerUseCases = {
    createSandbox: (caller, input) => sandboxes.createSandbox(caller, input),
    listSandboxes: (caller, input) => sandboxes.listSandboxes(caller, input),
    getSandbox: (caller, input) => sandboxes.getSandbox(caller, input),
    getSandboxMetrics: async (caller, input) => sampler.metrics(await sandboxes.find(caller, input.id)),
    async getSandboxConsole(caller, { id }) {
      const sandbox = await sandboxes.find(caller, id);
      vaults.requireUsable(sandbox.vault);
      return { text: await ports.node.console(sandbox.id) };
    },
    updateSandbox: (caller, input) => sandboxes.updateSandbox(caller, input),
    deleteSandbox: (caller, input) => sandboxes.deleteSandbox(caller, input),
    exportSandbox: (caller, input) => archives.exportSandbox(caller, input),
    followExport: (caller, input) => archives.followExport(caller, input),
    importSandbox: (caller, input) => {
      checkReach(caller, input.archive);
      return input.as === 'move' ? moves.importSandbox(caller, input) : archives.importSandbox(caller, input);
    },
    listArchives: (caller, input) => archives.listArchives(caller, input),
    deleteArchive: (caller, input) => archives.deleteArchive(caller, input),
    moveSandbox: (caller, input) => moves.moveSandbox(caller, input),
    undoMove: (caller, input) => moves.undoMove(caller, input),
    pauseSandbox: (caller, input) => sandboxes.pauseSandbox(caller, input),
    resumeSandbox: (caller, input) => sandboxes.resumeSandbox(caller, input),
    takeSnapshot: (caller, input) => sandboxes.takeSnapshot(caller, input),
    forkSandbox: (caller, input) => sandboxes.forkSandbox(caller, input),
    rewindSandbox: (caller, input) => sandboxes.rewindSandbox(caller, input),
    exec: (caller, input) => guests.exec(caller, input),
    startProcess: (caller, input) => guests.startProcess(caller, input),
    attachProcess: (caller, input) => guests.attachProcess(caller, input),
    writeInput: (caller, input, body) => guests.writeInput(caller, input, body),
    resizeTerminal: (caller, input) => guests.resizeTerminal(caller, input),
    listProcesses: (caller, input) => guests.listProcesses(caller, input),
    signalProcess: (caller, input) => guests.signalProcess(caller, input),
    readFile: (caller, input) => files.readFile(caller, input),
    writeFile: (caller, input, body) => files.writeFile(caller, input, body),
    statFile: (caller, input) => files.statFile(caller, input),
    listFiles: (caller, input) => files.listFiles(caller, input),
    makeDirectory: (caller, input) => files.makeDirectory(caller, input),
    moveFile: (caller, input) => files.moveFile(caller, input),
    removeFile: (caller, input) => files.removeFile(caller, input),
    setFileAttributes: (caller, input) => files.setFileAttributes(caller, input),
    makeSymlink: (caller, input) => files.makeSymlink(caller, input),
    listXattrs: (caller, input) => files.listXattrs(caller, input),
    getXattr: (caller, input) => files.getXattr(caller, input),
    setXattr: (caller, input) => files.setXattr(caller, input),
    removeXattr: (caller, input) => files.removeXattr(caller, input),
    watchFiles: (caller, input) => files.watchFiles(caller, input),
    createSchedule: (caller, input) => schedules.createSchedule(caller, input),
    listSchedules: (caller, input) => schedules.listSchedules(caller, input),
    getSchedule: (caller, input) => schedules.getSchedule(caller, input),
    updateSchedule: (caller, input) => schedules.updateSchedule(caller, input),
    deleteSchedule: (caller, input) => schedules.deleteSchedule(caller, input),
    connectPort: (caller, input) => portUses.connectPort(caller, input),
    createShare: (caller, input) => shares.createShare(caller, input),
    listShares: (caller, input) => shares.listShares(caller, input),
    revokeShare: (caller, input) => shares.revokeShare(caller, input),
    getTimeline: (caller, input) => snapshots.getTimeline(caller, input),
    listSnapshots: (caller, input) => snapshots.listSnapshots(caller, input),
    getSnapshot: (caller, input) => snapshots.getSnapshot(caller, input),
    updateSnapshot: (caller, input) => snapshots.updateSnapshot(caller, input),
    deleteSnapshot: (caller, input) => snapshots.deleteSnapshot(caller, input),
    getNetwork: ({ principal }) => network.getConstraints(principal.organisationId),
    setNetwork: ({ principal }, input) => network.setConstraints(principal.organisationId, input),
    setPrivateHosts: (_caller, { id, privateHosts }) => network.setConstraints(id, { privateHosts }),
    getWebhook: (caller) => notices.getWebhook(caller),
    setWebhook: (caller, input) => notices.setWebhook(caller, input),
    removeWebhook: (caller) => notices.removeWebhook(caller),
    listApprovals: (caller, input) => approvals.listApprovals(caller, input),
    getApproval: (caller, input) => approvals.getApproval(caller, input),
    approveRequest: (caller, input) => approvals.approveRequest(caller, input),
    denyRequest: (caller, input) => approvals.denyRequest(caller, input),
    listEgress: async (caller, { id, ...page }) => {
      const { id: sandboxId } = await sandboxes.find(caller, id);
      const { items, next } = await ports.records.egress.list({ ...page, sandboxId });
      return { records: items.map(viewEgress), nextCursor: next };
    },
    getSealingKey: (caller) => secrets.getSealingKey(caller),
    listSecrets: (caller) => secrets.listSecrets(caller),
    setSecret: (caller, input) => secrets.setSecret(caller, input),
    deleteSecret: (caller, input) => secrets.deleteSecret(caller, input),
    listSecretBindings: (caller) => secrets.listSecretBindings(caller),
    setSecretBinding: (caller, input) => secrets.setSecretBinding(caller, input),
    deleteSecretBinding: (caller, input) => secrets.deleteSecretBinding(caller, input),
    listVaults: (caller) => vaultUses.listVaults(caller),
    createVault: (caller, input) => vaultUses.createVault(caller, input),
    getVault: (caller, input) => vaultUses.getVault(caller, input),
    updateVault: (caller, input) => vaultUses.updateVault(caller, input),
    rotateVaultKey: (caller, input) => vaultUses.rotateVaultKey(caller, input),
    revokeVault: (caller, input) => vaultUses.revokeVault(caller, input),
    reinstateVault: (caller, input) => vaultUses.reinstateVault(caller, input),
    deleteVault: (caller, input) => vaultUses.deleteVault(caller, input),
    listTemplates: (caller, input) => snapshots.listTemplates(caller, input),
    requestTemplateBuild: (caller, input) => templates.requestTemplateBuild(caller, input),
    startTemplateBuild: (caller, input) => templates.startTemplateBuild(caller, input),
    getTemplateBuild: (caller, input) => templates.getTemplateBuild(caller, input),
    getTemplate: (caller, input) => templates.getTemplate(caller, input),
    deleteTemplate: (caller, input) => templates.deleteTemplate(caller, input),
    tagTemplate: (caller, input) => templates.tagTemplate(caller, input),
    untagTemplate: (caller, input) => templates.untagTemplate(caller, input),
    getTemplateFile: (caller, input) => templates.getTemplateFile(caller, input),
    putTemplateFile: (caller, input, body) => templates.putTemplateFile(caller, input, body),
    getMetrics: () => metrics.render(ports),
    getCapabilities: (caller, input) => snapshots.getCapabilities(caller, input),
    listOperations: (caller, input) => operations.listOperations(caller, input),
    getOperation: (caller, input) => operations.getOperation(caller, input),
    listEvents: (caller, input) => events.listEvents(caller, input),
    listAudit: (caller, input) => operations.listAudit(caller, input),
    verifyAudit: (caller) => chain.verify(caller),
    exportAudit: (caller, input) => chain.export(caller, input),
    listProjects: (caller, input) => tenants.listProjects(caller, input),
    createProject: (caller, input) => tenants.createProject(caller, input),
    getProject: (caller, input) => tenants.getProject(caller, input),
    updateProject: (caller, input) => tenants.updateProject(caller, input),
    deleteProject: (caller, input) => tenants.deleteProject(caller, input),
    listKeys: (caller, input) => tenants.listKeys(caller, input),
    createKey: (caller, input) => tenants.createKey(caller, input),
    revokeKey: (caller, input) => tenants.revokeKey(caller, input),
    listOrganisations: (caller, input) => tenants.listOrganisations(caller, input),
    createOrganisation: (caller, input) => tenants.createOrganisation(caller, input),
    updateOrganisation: (caller, input) => tenants.updateOrganisation(caller, input),
    setLimits: (caller, input) => tenants.setLimits(caller, input),
    getLimits: (caller, input) => tenants.getLimits(caller, input),
  };
  return {
    ...new Gate(keys, calls, audit).guard(useCases),
    readiness: () => snapshots.readiness(),
    openShare: async (token, target) => {
      const share = await shares.find(token, target);
      if (share === null) return null;
      return { expiresAt: share.expiresAt, connect: (signal) => portUses.connectShared(share, signal) };
    },
    openPublic: async ({ sandboxId, port }) => {
      if (!(await access.reach(sandboxId))?.publicPorts) return null;
      return { connect: (signal) => portUses.connectPublic(sandboxId, port, signal) };
    },
    tokenFor: (caller, sandbox) => access.tokenFor(caller, sandbox),
    reach: (id) => access.reach(id),
    findByToken: (isIt, limit) => access.findByToken(isIt, limit),
    listRuns: (caller, asked) => listRuns(ports.records, caller, asked),
    uploads: new UploadTickets(ports),
    authenticate: (apiKey, project) => identify(ports.records, apiKey, project),
    pauseUnasked: (id) => sandboxes.pauseUnasked(id),
    start: async () => {
      forgetting = given.node.onBack(() => vaults.forget());
      const report = await watch.start();
      await builds.round().catch((err: unknown) => ports.logger.warn({ err }, 'builds could not be looked after'));
      await audit.closeLeft();
      return report;
    },
    close: async () => {
      forgetting();
      keys.close();
      sharesInUse.close();
      scheduleRuns.close();
      scrubber.close();
      regularArchives.close();
      approvals.close();
      archiveCollector.close();
      await settledWithin(builds.close(), BUILDS_END_MS);
      await watch.close();
      // Their operations have ended or were let go of: what is left is tidying up.
      const tidied = [
        idlePauses.settled(),
        setWakes.settled(),
        expiries.settled(),
        scheduleRuns.settled(),
        rolling.settled(),
        approvals.settled(),
        notices.settled(),
        regularArchives.settled(),
        archiveCollector.settled(),
        halt.settled(),
        vaultUses.settled(),
        relief.close(),
        collector.close(),
      ];
      await settledWithin(Promise.all(tidied), TIDY_MS);
    },
  };
}
