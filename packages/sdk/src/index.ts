/**
 * The client of SPACE. It needs nothing at run time but a `fetch`, so it runs on Node 20 and later and wherever else there
 * is one; its types are those of the contract.
 *
 * ```ts
 * import { Sandbox } from '@space/sdk';
 *
 * await using sandbox = await Sandbox.create();
 * const { stdout, exitCode } = await sandbox.run('uname -a');
 * const [left, right] = await sandbox.fork(2);
 * ```
 */
export {
  type Approval,
  type ApprovalDetail,
  type ApprovalState,
  approve,
  type DecideOptions,
  deny,
  getApproval,
  getWebhook,
  type ListApprovalsOptions,
  listApprovals,
  removeWebhook,
  setWebhook,
  type Webhook,
  type WebhookSet,
} from './approvals.ts';

export {
  type ArchivePlaceOptions,
  deleteArchive,
  type ExportProgress,
  type ListedArchive,
  listArchives,
} from './archives.ts';
export {
  type AuditChain,
  type AuditHead,
  type CheckedAuditChain,
  checkAuditExport,
  parseAuditHeads,
} from './audit-check.ts';
export { type RetryAdvice, SpaceError, type SpaceErrorCode } from './errors.ts';
export {
  type AttachOptions,
  DEFAULT_MAX_OUTPUT_BYTES,
  type ExecEvent,
  type ExecOptions,
  type InputOptions,
  type Process,
  type ProcessEnd,
  type ReattachOptions,
  type RunOptions,
  type RunResult,
  type SignalName,
  type StartedProcess,
  type StartOptions,
  type TerminalSize,
} from './exec.ts';
export type {
  DirectoryOptions,
  FileContent,
  FileEntry,
  FileOptions,
  Files,
  FollowOptions,
  ListOptions as ListFilesOptions,
  MoveOptions,
  ReadOptions,
  RemoveOptions,
  WatchOptions,
  WriteOptions,
  WrittenFile,
} from './files.ts';
export type { Forwarded, ForwardOptions } from './forward.ts';
export {
  type EventsOptions,
  events,
  type HappenedEvent,
  type ListOperationsOptions,
  latestEvent,
  type Operation,
  operations,
} from './history.ts';
export {
  type ApiKey,
  type CreatedApiKey,
  type CreateKeyOptions,
  createKey,
  listKeys,
  type Role,
  revokeKey,
} from './keys.ts';
export type { FilePath } from './paths.ts';
export {
  type Capabilities,
  deleteSnapshot,
  getCapabilities,
  getSnapshot,
  listSnapshots,
  listTemplates,
  type SnapshotChanges,
  type Template,
  updateSnapshot,
} from './platform.ts';
export type { CreatedShare, Ports, Share, ShareOptions } from './ports.ts';
export {
  type AskRule,
  type CreateOptions,
  type EgressRecord,
  type ExpiryChoice,
  type Exported,
  type ExportOptions,
  ForkError,
  type ForkOptions,
  type IdlePolicy,
  type ImportOptions,
  type ListOptions,
  type MoveSandboxOptions,
  type NetworkChoice,
  type NetworkRule,
  type PastTime,
  type RewindOptions,
  type RunPolicy,
  Sandbox,
  type SandboxFields,
  type SandboxMetrics,
  type Snapshot,
  type SnapshotOptions,
  type SnapshotPolicyChoice,
  type Timeline,
  type UpdateOptions,
} from './sandbox.ts';
export type { Schedule, ScheduleChanges, ScheduledExec, ScheduleOptions, Schedules } from './schedules.ts';
export {
  type BindingOptions,
  deleteSecret,
  deleteSecretBinding,
  listSecretBindings,
  listSecrets,
  type Secret,
  type SecretBinding,
  type SecretSource,
  setSecret,
  setSecretBinding,
} from './secrets.ts';
export {
  type BuildTemplateOptions,
  type BuiltTemplate,
  buildTemplate,
  deleteTemplate,
  listBuiltTemplates,
  type TemplateBuild,
  TemplateBuildError,
  type TemplateLogEntry,
  type TemplateRecipe,
  uploadTemplateFiles,
} from './templates.ts';
export {
  type AuditExportLine,
  type AuditExportOptions,
  type AuditRecord,
  type AuditVerification,
  audit,
  type ConstraintChoice,
  type CreatedOrganisation,
  createOrganisation,
  createProject,
  type DeleteProjectOptions,
  deleteProject,
  exportAudit,
  getLimits,
  getMetrics,
  getNetwork,
  getProject,
  type LimitChanges,
  type LimitsAndUsage,
  listOrganisations,
  listProjects,
  type NetworkConstraints,
  type Organisation,
  type Project,
  type ProjectChanges,
  renameOrganisation,
  setLimits,
  setNetwork,
  setPrivateHosts,
  updateProject,
  verifyAudit,
} from './tenants.ts';
export type { CallOptions, ConnectionOptions } from './transport.ts';
export {
  type CreateVaultOptions,
  createVault,
  deleteVault,
  getVault,
  type KmsKey,
  listVaults,
  reinstateVault,
  revokeVault,
  rotateVaultKey,
  type UpdateVaultOptions,
  updateVault,
  type Vault,
  type VaultList,
} from './vaults.ts';
export { SDK_VERSION } from './version.ts';
export type { WatchEvent } from './watch.ts';
export type { Xattrs } from './xattrs.ts';
