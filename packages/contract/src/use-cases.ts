/**
 * What control does for a caller: one method per route of the contract, named by the route's key. `@space/control`
 * implements it; the HTTP server, and any further face, binds it.
 *
 * - Input is parsed; a method trusts its form. Whether the caller may do the route's action is decided by the method; ids
 *   and names are looked up by it, in the caller's project or organisation: what lies elsewhere is `not_found`.
 * - Errors are thrown as `AppError`. What is thrown inside a stream, after its first item, ends the stream as its error.
 * - A stream does nothing until its first item is asked for, and is asked for one item at a time: not asking is
 *   back-pressure. `return()` ends it at any time.
 * - The caller's signal aborts when nobody waits for the answer any longer. Streams then end. A lifecycle operation that
 *   has begun goes on to its end.
 */
import type {
  AppError,
  FileStatus,
  GuestBytes,
  GuestProcess,
  ListedFile,
  OperationId,
  PortConnection,
  Principal,
  ProcessEvent,
  ProjectId,
  WatchEvent,
} from '@space/core';
import type {
  ApiKeyList,
  ApprovalDetail,
  ApprovalList,
  ArchiveList,
  AuditExportEvent,
  AuditList,
  AuditVerification,
  BuiltTemplate,
  Capabilities,
  CreatedApiKey,
  CreatedOrganisation,
  CreatedShare,
  EgressList,
  Exported,
  ExportWireEvent,
  Input,
  LimitsAndUsage,
  NetworkConstraints,
  Operation,
  OperationList,
  Organisation,
  OrganisationList,
  PlatformEvent,
  Project,
  ProjectList,
  Readiness,
  Rewound,
  Sandbox,
  SandboxConsole,
  SandboxDetail,
  SandboxList,
  SandboxMetrics,
  Schedule,
  ScheduleList,
  SealingKey,
  Secret,
  SecretBinding,
  SecretBindingList,
  SecretList,
  ShareList,
  Snapshot,
  SnapshotList,
  StartedProcess,
  TemplateBuild,
  TemplateBuildWithLog,
  TemplateFile,
  TemplateList,
  TemplateTags,
  Timeline,
  Vault,
  VaultList,
  Webhook,
  WebhookSet,
  WrittenInput,
} from './types.ts';

export interface Caller {
  readonly principal: Principal;
  /** The project that the request means; the principal reaches it. */
  readonly projectId: ProjectId;
  /** Names the call, so that it is made once however often it is sent. */
  readonly idempotencyKey?: string;
  /** Names the request in logs and in problems. */
  readonly requestId: string;
  readonly signal: AbortSignal;
  /** Told of each operation that the call begins, once it is journalled. */
  readonly onOperation?: (id: OperationId) => void;
}

/** A label is for faces that keep something of their own with a process: our API neither takes nor tells one. */
export type LabelledExec = Input<'exec'> & { readonly label?: string };

export interface OpenFile {
  /** Of the file, as it was when it was opened. */
  readonly status: FileStatus;
  /** The part that was asked for. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** Of one child of a fork. */
export type ForkResult = { readonly sandbox: Sandbox } | { readonly error: AppError };

export interface UseCases {
  createSandbox(caller: Caller, input: Input<'createSandbox'>): Promise<Sandbox>;
  listSandboxes(caller: Caller, input: Input<'listSandboxes'>): Promise<SandboxList>;
  getSandbox(caller: Caller, input: Input<'getSandbox'>): Promise<SandboxDetail>;
  getSandboxMetrics(caller: Caller, input: Input<'getSandboxMetrics'>): Promise<SandboxMetrics>;
  getSandboxConsole(caller: Caller, input: Input<'getSandboxConsole'>): Promise<SandboxConsole>;
  updateSandbox(caller: Caller, input: Input<'updateSandbox'>): Promise<Sandbox>;
  deleteSandbox(caller: Caller, input: Input<'deleteSandbox'>): Promise<void>;

  /** From `started` to `exited`; a stream that cannot end so throws (`vm_lost`, `link_lost`, …). */
  exec(caller: Caller, input: LabelledExec): AsyncIterable<ProcessEvent>;
  startProcess(caller: Caller, input: Input<'startProcess'>): Promise<StartedProcess>;
  attachProcess(caller: Caller, input: Input<'attachProcess'>): AsyncIterable<ProcessEvent>;
  /** Consumes the body at the pace of the process. What was taken stays taken when the body fails. */
  writeInput(caller: Caller, input: Input<'writeInput'>, body: AsyncIterable<Uint8Array>): Promise<WrittenInput>;
  resizeTerminal(caller: Caller, input: Input<'resizeTerminal'>): Promise<void>;
  listProcesses(caller: Caller, input: Input<'listProcesses'>): Promise<readonly GuestProcess[]>;
  signalProcess(caller: Caller, input: Input<'signalProcess'>): Promise<void>;

  readFile(caller: Caller, input: Input<'readFile'>): Promise<OpenFile>;
  /** Consumes the body; when it throws (the client vanished), the file is left as it was. */
  writeFile(
    caller: Caller,
    input: Input<'writeFile'>,
    body: AsyncIterable<Uint8Array>,
  ): Promise<{ readonly sizeBytes: number; readonly sha256: string }>;
  statFile(caller: Caller, input: Input<'statFile'>): Promise<FileStatus>;
  listFiles(caller: Caller, input: Input<'listFiles'>): AsyncIterable<ListedFile>;
  makeDirectory(caller: Caller, input: Input<'makeDirectory'>): Promise<FileStatus>;
  moveFile(caller: Caller, input: Input<'moveFile'>): Promise<void>;
  /** How many entries were removed. */
  removeFile(caller: Caller, input: Input<'removeFile'>): Promise<number>;
  setFileAttributes(caller: Caller, input: Input<'setFileAttributes'>): Promise<FileStatus>;
  makeSymlink(caller: Caller, input: Input<'makeSymlink'>): Promise<FileStatus>;
  listXattrs(caller: Caller, input: Input<'listXattrs'>): Promise<readonly GuestBytes[]>;
  getXattr(caller: Caller, input: Input<'getXattr'>): Promise<Uint8Array>;
  setXattr(caller: Caller, input: Input<'setXattr'>): Promise<void>;
  removeXattr(caller: Caller, input: Input<'removeXattr'>): Promise<void>;
  /** Starts with `ready`. */
  watchFiles(caller: Caller, input: Input<'watchFiles'>): AsyncIterable<WatchEvent>;

  createSchedule(caller: Caller, input: Input<'createSchedule'>): Promise<Schedule>;
  listSchedules(caller: Caller, input: Input<'listSchedules'>): Promise<ScheduleList>;
  getSchedule(caller: Caller, input: Input<'getSchedule'>): Promise<Schedule>;
  updateSchedule(caller: Caller, input: Input<'updateSchedule'>): Promise<Schedule>;
  deleteSchedule(caller: Caller, input: Input<'deleteSchedule'>): Promise<void>;

  /** Open until both sides have ended; the signal of the caller resets it at any time. */
  connectPort(caller: Caller, input: Input<'connectPort'>): Promise<PortConnection>;
  createShare(caller: Caller, input: Input<'createShare'>): Promise<Omit<CreatedShare, 'url'>>;
  listShares(caller: Caller, input: Input<'listShares'>): Promise<ShareList>;
  revokeShare(caller: Caller, input: Input<'revokeShare'>): Promise<void>;

  exportSandbox(caller: Caller, input: Input<'exportSandbox'>): Promise<Exported>;
  followExport(caller: Caller, input: Input<'followExport'>): AsyncIterable<ExportWireEvent>;
  listArchives(caller: Caller, input: Input<'listArchives'>): Promise<ArchiveList>;
  deleteArchive(caller: Caller, input: Input<'deleteArchive'>): Promise<void>;
  moveSandbox(caller: Caller, input: Input<'moveSandbox'>): Promise<Exported>;
  undoMove(caller: Caller, input: Input<'undoMove'>): Promise<Sandbox>;
  importSandbox(caller: Caller, input: Input<'importSandbox'>): Promise<Sandbox>;

  pauseSandbox(caller: Caller, input: Input<'pauseSandbox'>): Promise<Sandbox>;
  resumeSandbox(caller: Caller, input: Input<'resumeSandbox'>): Promise<Sandbox>;
  takeSnapshot(caller: Caller, input: Input<'takeSnapshot'>): Promise<Snapshot>;
  getTimeline(caller: Caller, input: Input<'getTimeline'>): Promise<Timeline>;
  /** Throws when nothing was made; else one result per child. */
  forkSandbox(caller: Caller, input: Input<'forkSandbox'>): Promise<readonly ForkResult[]>;
  rewindSandbox(caller: Caller, input: Input<'rewindSandbox'>): Promise<Rewound>;

  /** The named ones. */
  listSnapshots(caller: Caller, input: Input<'listSnapshots'>): Promise<SnapshotList>;
  getSnapshot(caller: Caller, input: Input<'getSnapshot'>): Promise<Snapshot>;
  updateSnapshot(caller: Caller, input: Input<'updateSnapshot'>): Promise<Snapshot>;
  deleteSnapshot(caller: Caller, input: Input<'deleteSnapshot'>): Promise<void>;

  listOperations(caller: Caller, input: Input<'listOperations'>): Promise<OperationList>;
  getOperation(caller: Caller, input: Input<'getOperation'>): Promise<Operation>;

  listEvents(caller: Caller, input: Input<'listEvents'>): AsyncIterable<PlatformEvent>;
  listAudit(caller: Caller, input: Input<'listAudit'>): Promise<AuditList>;
  verifyAudit(caller: Caller, input: Input<'verifyAudit'>): Promise<AuditVerification>;
  exportAudit(caller: Caller, input: Input<'exportAudit'>): AsyncIterable<AuditExportEvent>;

  listProjects(caller: Caller, input: Input<'listProjects'>): Promise<ProjectList>;
  createProject(caller: Caller, input: Input<'createProject'>): Promise<Project>;
  getProject(caller: Caller, input: Input<'getProject'>): Promise<Project>;
  updateProject(caller: Caller, input: Input<'updateProject'>): Promise<Project>;
  deleteProject(caller: Caller, input: Input<'deleteProject'>): Promise<void>;
  listKeys(caller: Caller, input: Input<'listKeys'>): Promise<ApiKeyList>;
  createKey(caller: Caller, input: Input<'createKey'>): Promise<CreatedApiKey>;
  revokeKey(caller: Caller, input: Input<'revokeKey'>): Promise<void>;
  listOrganisations(caller: Caller, input: Input<'listOrganisations'>): Promise<OrganisationList>;
  createOrganisation(caller: Caller, input: Input<'createOrganisation'>): Promise<CreatedOrganisation>;
  updateOrganisation(caller: Caller, input: Input<'updateOrganisation'>): Promise<Organisation>;
  setLimits(caller: Caller, input: Input<'setLimits'>): Promise<Organisation>;
  getLimits(caller: Caller, input: Input<'getLimits'>): Promise<LimitsAndUsage>;

  getNetwork(caller: Caller, input: Input<'getNetwork'>): Promise<NetworkConstraints>;
  setNetwork(caller: Caller, input: Input<'setNetwork'>): Promise<NetworkConstraints>;
  setPrivateHosts(caller: Caller, input: Input<'setPrivateHosts'>): Promise<NetworkConstraints>;
  getWebhook(caller: Caller, input: Input<'getWebhook'>): Promise<Webhook>;
  setWebhook(caller: Caller, input: Input<'setWebhook'>): Promise<WebhookSet>;
  removeWebhook(caller: Caller, input: Input<'removeWebhook'>): Promise<void>;
  listApprovals(caller: Caller, input: Input<'listApprovals'>): Promise<ApprovalList>;
  getApproval(caller: Caller, input: Input<'getApproval'>): Promise<ApprovalDetail>;
  approveRequest(caller: Caller, input: Input<'approveRequest'>): Promise<ApprovalDetail>;
  denyRequest(caller: Caller, input: Input<'denyRequest'>): Promise<ApprovalDetail>;
  listEgress(caller: Caller, input: Input<'listEgress'>): Promise<EgressList>;

  getSealingKey(caller: Caller, input: Input<'getSealingKey'>): Promise<SealingKey>;
  listSecrets(caller: Caller, input: Input<'listSecrets'>): Promise<SecretList>;
  setSecret(caller: Caller, input: Input<'setSecret'>): Promise<Secret>;
  deleteSecret(caller: Caller, input: Input<'deleteSecret'>): Promise<void>;
  listSecretBindings(caller: Caller, input: Input<'listSecretBindings'>): Promise<SecretBindingList>;
  setSecretBinding(caller: Caller, input: Input<'setSecretBinding'>): Promise<SecretBinding>;
  deleteSecretBinding(caller: Caller, input: Input<'deleteSecretBinding'>): Promise<void>;

  listVaults(caller: Caller, input: Input<'listVaults'>): Promise<VaultList>;
  createVault(caller: Caller, input: Input<'createVault'>): Promise<Vault>;
  getVault(caller: Caller, input: Input<'getVault'>): Promise<Vault>;
  updateVault(caller: Caller, input: Input<'updateVault'>): Promise<Vault>;
  rotateVaultKey(caller: Caller, input: Input<'rotateVaultKey'>): Promise<Vault>;
  revokeVault(caller: Caller, input: Input<'revokeVault'>): Promise<Vault>;
  reinstateVault(caller: Caller, input: Input<'reinstateVault'>): Promise<Vault>;
  deleteVault(caller: Caller, input: Input<'deleteVault'>): Promise<void>;
  /** A build that waits for what it is made of. Throws `name_taken` for the name of a template of the installation. */
  requestTemplateBuild(caller: Caller, input: Input<'requestTemplateBuild'>): Promise<TemplateBuild>;
  /** Begins it, and answers at once. */
  startTemplateBuild(caller: Caller, input: Input<'startTemplateBuild'>): Promise<TemplateBuild>;
  getTemplateBuild(caller: Caller, input: Input<'getTemplateBuild'>): Promise<TemplateBuildWithLog>;
  getTemplate(caller: Caller, input: Input<'getTemplate'>): Promise<BuiltTemplate>;
  deleteTemplate(caller: Caller, input: Input<'deleteTemplate'>): Promise<void>;
  tagTemplate(caller: Caller, input: Input<'tagTemplate'>): Promise<TemplateTags>;
  untagTemplate(caller: Caller, input: Input<'untagTemplate'>): Promise<void>;
  getTemplateFile(caller: Caller, input: Input<'getTemplateFile'>): Promise<TemplateFile>;
  putTemplateFile(
    caller: Caller,
    input: Input<'putTemplateFile'>,
    body: AsyncIterable<Uint8Array>,
  ): Promise<TemplateFile>;

  listTemplates(caller: Caller, input: Input<'listTemplates'>): Promise<TemplateList>;
  /** In Prometheus' text format. */
  getMetrics(caller: Caller, input: Input<'getMetrics'>): Promise<string>;
  getCapabilities(caller: Caller, input: Input<'getCapabilities'>): Promise<Omit<Capabilities, 'previews'>>;
  /** Asked without a key, so it says nothing internal. Never throws. */
  readiness(): Promise<Readiness>;
}
