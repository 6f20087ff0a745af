/**
 * The wire's shapes as types, for all who need no validation. Import them with `import type`: then nothing of zod is
 * loaded at run time.
 */
import type { z } from 'zod';
import type { RouteInput, RouteRequest } from './route.ts';
import type { ROUTES, RouteName } from './routes.ts';
import type * as schemas from './schemas/index.ts';

export type Sandbox = z.output<typeof schemas.sandbox>;
export type SandboxDetail = z.output<typeof schemas.sandboxDetail>;
export type SandboxList = z.output<typeof schemas.sandboxList>;
export type Snapshot = z.output<typeof schemas.snapshot>;
export type Timeline = z.output<typeof schemas.timeline>;
export type SnapshotList = z.output<typeof schemas.snapshotList>;
export type SandboxMetrics = z.output<typeof schemas.sandboxMetrics>;
export type SandboxConsole = z.output<typeof schemas.sandboxConsole>;
export type Rewound = z.output<typeof schemas.rewound>;
export type ForkResults = z.output<typeof schemas.forkResults>;
export type ExecWireEvent = z.output<typeof schemas.execEvent>;
export type ListWireEvent = z.output<typeof schemas.listEvent>;
export type ProcessList = z.output<typeof schemas.processList>;
export type StartedProcess = z.output<typeof schemas.startedProcess>;
export type WrittenInput = z.output<typeof schemas.writtenInput>;
export type FileEntry = z.output<typeof schemas.fileEntry>;
export type WatchWireEvent = z.output<typeof schemas.watchEvent>;
export type XattrList = z.output<typeof schemas.xattrList>;
export type RemovedFiles = z.output<typeof schemas.removedFiles>;
export type WrittenFile = z.output<typeof schemas.writtenFile>;
export type Schedule = z.output<typeof schemas.schedule>;
export type ScheduleList = z.output<typeof schemas.scheduleList>;
export type Share = z.output<typeof schemas.share>;
export type Secret = z.output<typeof schemas.secret>;
export type SecretList = z.output<typeof schemas.secretList>;
export type Vault = z.output<typeof schemas.vault>;
export type VaultList = z.output<typeof schemas.vaultList>;
export type SealingKey = z.output<typeof schemas.sealingKey>;
export type SecretBinding = z.output<typeof schemas.secretBinding>;
export type SecretBindingList = z.output<typeof schemas.secretBindingList>;
export type ShareList = z.output<typeof schemas.shareList>;
export type CreatedShare = z.output<typeof schemas.createdShare>;
export type ArchiveList = z.output<typeof schemas.archiveList>;
export type Exported = z.output<typeof schemas.exported>;
/** The use-cases throw what the wire tells as `error`. */
export type ExportWireEvent = Exclude<z.output<typeof schemas.exportEvent>, { readonly type: 'error' }>;
export type Capabilities = z.output<typeof schemas.capabilities>;
export type TemplateList = z.output<typeof schemas.templateList>;
export type TemplateRecipe = z.output<typeof schemas.recipe>;
export type TemplateBuild = z.output<typeof schemas.templateBuild>;
export type TemplateBuildWithLog = z.output<typeof schemas.templateBuildWithLog>;
export type BuiltTemplate = z.output<typeof schemas.builtTemplate>;
export type TemplateTags = z.output<typeof schemas.templateTags>;
export type TemplateFile = z.output<typeof schemas.templateFile>;
export type Operation = z.output<typeof schemas.operation>;
export type OperationList = z.output<typeof schemas.operationList>;
export type AuditList = z.output<typeof schemas.auditList>;
export type AuditVerification = z.output<typeof schemas.auditVerification>;
export type AuditExportEvent = z.output<typeof schemas.auditExportEvent>;
export type LimitsAndUsage = z.output<typeof schemas.limitsAndUsage>;
export type PlatformWireEvent = z.output<typeof schemas.platformEvent>;
export type PlatformEvent = Extract<PlatformWireEvent, { readonly type: 'open' | 'event' }>;
export type Project = z.output<typeof schemas.project>;
export type ProjectList = z.output<typeof schemas.projectList>;
export type ApiKey = z.output<typeof schemas.apiKey>;
export type ApiKeyList = z.output<typeof schemas.apiKeyList>;
export type CreatedApiKey = z.output<typeof schemas.createdApiKey>;
export type Organisation = z.output<typeof schemas.organisation>;
export type OrganisationList = z.output<typeof schemas.organisationList>;
export type CreatedOrganisation = z.output<typeof schemas.createdOrganisation>;
export type NetworkConstraints = z.output<typeof schemas.networkConstraints>;
export type ApprovalDetail = z.output<typeof schemas.approvalDetail>;
export type ApprovalList = z.output<typeof schemas.approvalList>;
export type EgressList = z.output<typeof schemas.egressList>;
export type Webhook = z.output<typeof schemas.webhook>;
export type WebhookSet = z.output<typeof schemas.webhookSet>;
export type Health = z.output<typeof schemas.health>;
export type Readiness = z.output<typeof schemas.readiness>;
export type Problem = z.output<typeof schemas.problem>;

/** What the use-case of a route is given: path parameters, query and JSON body, parsed, in one object. */
export type Input<N extends RouteName> = RouteInput<(typeof ROUTES)[N]>;
/** What a client sends, before defaults are filled in. */
export type Request<N extends RouteName> = RouteRequest<(typeof ROUTES)[N]>;
