/** Projects and organisations, their limits, and who did what in them; for who may see or manage them. */
import type {
  AuditExportEvent,
  AuditList,
  AuditVerification,
  CreatedOrganisation,
  LimitsAndUsage,
  NetworkConstraints,
  Organisation,
  OrganisationList,
  Project,
  ProjectList,
  Request,
} from '@space/contract';
import { readEvents } from './lines.ts';
import { refuseUnknown } from './options.ts';
import { itemsOf, pagesOf } from './pages.ts';
import type { NetworkChoice } from './sandbox.ts';
import { type CallOptions, type ConnectionOptions, signalOf, Transport, withoutConnection } from './transport.ts';

export type { AuditVerification, CreatedOrganisation, LimitsAndUsage, NetworkConstraints, Organisation, Project };
/** One link, or the place that those of a chain stand behind. */
export type AuditExportLine = Extract<AuditExportEvent, { type: 'anchor' | 'link' }>;
export type AuditRecord = AuditList['records'][number];
/** Null takes a limit away; what is left out stays. */
export type LimitChanges = Omit<Request<'setLimits'>, 'id'>;

/** The widest that any sandbox of the organisation may reach. Nothing may be left out. */
export type ConstraintChoice = Required<NetworkChoice> & {
  /** Hosts at which nothing is written. */
  readonly readOnly: readonly string[];
};

/** Its name, and when its sandboxes are snapshotted unless they say it themselves; what is left out stays. */
export type ProjectChanges = Omit<Request<'updateProject'>, 'id'>;

type Options = ConnectionOptions & CallOptions;

export interface DeleteProjectOptions extends ConnectionOptions, CallOptions {
  /** Also its sandboxes and snapshots. Default false: then one that holds any stays. */
  readonly force?: boolean;
}

/** Those that the key reaches, newest first. */
export async function listProjects(options: Options = {}): Promise<Project[]> {
  return itemsOf(pagesOf<ProjectList>(...listOf('/v1/projects', options)), ({ projects }) => projects);
}

/** By id or name. Throws `not_found`. */
export async function getProject(idOrName: string, options: Options = {}): Promise<Project> {
  return callOf(options, { method: 'GET', path: projectPath(idOrName) });
}

/** Errors: `name_taken`. */
export async function createProject(name: string, options: Options = {}): Promise<Project> {
  return callOf(options, { method: 'POST', path: '/v1/projects', json: { name } });
}

/** Errors: `name_taken`, `not_found`. */
export async function updateProject(
  idOrName: string,
  changes: ProjectChanges,
  options: Options = {},
): Promise<Project> {
  return callOf(options, { method: 'PATCH', path: projectPath(idOrName), json: changes });
}

/** Errors: `project_not_empty`, `last_project`, `not_found`. */
export async function deleteProject(idOrName: string, options: DeleteProjectOptions = {}): Promise<void> {
  const { force, signal, ...unknown } = withoutConnection(options);
  refuseUnknown(unknown);
  await new Transport(options).done({ method: 'DELETE', path: projectPath(idOrName), query: { force }, signal });
}

/** The limits of the organisation, and what it has now. */
export async function getLimits(options: Options = {}): Promise<LimitsAndUsage> {
  return callOf(options, { method: 'GET', path: '/v1/limits' });
}

/** Who did what, and was not allowed to, newest first, fetched as they are asked for. */
export async function* audit(options: Options = {}): AsyncGenerator<AuditRecord> {
  for await (const page of pagesOf<AuditList>(...listOf('/v1/audit', options))) yield* page.records;
}

/** Whether the audit is what was written. */
export async function verifyAudit(options: Options = {}): Promise<AuditVerification> {
  return callOf(options, { method: 'GET', path: '/v1/audit/verification' });
}

export interface AuditExportOptions extends Options {
  /** Left out: both, who did what and what left sandboxes. */
  readonly chain?: 'calls' | 'egress';
  readonly since?: Date | string;
  /** So many of each, the newest. */
  readonly last?: number;
  /** Goes on with what comes. */
  readonly follow?: boolean;
}

/** The audit in order, each link with its digest; a chain begins with its anchor. */
export async function* exportAudit(options: AuditExportOptions = {}): AsyncGenerator<AuditExportLine> {
  const { chain, since, last, follow, signal, ...unknown } = withoutConnection(options);
  refuseUnknown(unknown);
  const from = since instanceof Date ? since.toISOString() : since;
  const query = { chain, since: from, last, follow };
  const response = await new Transport(options).send({ method: 'GET', path: '/v1/audit/export', query, signal });
  for await (const event of readEvents<AuditExportEvent>(response, 'end', signal)) {
    if (event.type === 'anchor' || event.type === 'link') yield event;
  }
}

/** For who runs the installation; newest first. */
export async function listOrganisations(options: Options = {}): Promise<Organisation[]> {
  const pages = pagesOf<OrganisationList>(...listOf('/v1/organisations', options));
  return itemsOf(pages, ({ organisations }) => organisations);
}

/** With its first project and the first key of an admin, whose secret is in this answer only. */
export async function createOrganisation(name: string, options: Options = {}): Promise<CreatedOrganisation> {
  return callOf(options, { method: 'POST', path: '/v1/organisations', json: { name } });
}

export async function renameOrganisation(id: string, name: string, options: Options = {}): Promise<Organisation> {
  return callOf(options, { method: 'PATCH', path: organisationPath(id), json: { name } });
}

/** A limit below what is held stops nothing that is there. */
export async function setLimits(id: string, changes: LimitChanges, options: Options = {}): Promise<Organisation> {
  return callOf(options, { method: 'PUT', path: `${organisationPath(id)}/limits`, json: changes });
}

/** What stands above the `network` of every sandbox of the organisation. */
export async function getNetwork(options: Options = {}): Promise<NetworkConstraints> {
  return callOf(options, { method: 'GET', path: '/v1/network' });
}

/** For an admin. What is open and not allowed any more is cut. */
export async function setNetwork(constraints: ConstraintChoice, options: Options = {}): Promise<NetworkConstraints> {
  return callOf(options, { method: 'PUT', path: '/v1/network', json: constraints });
}

/** For who runs the installation: hosts that sandboxes of an organisation may reach at private addresses. */
export async function setPrivateHosts(
  id: string,
  privateHosts: readonly string[],
  options: Options = {},
): Promise<NetworkConstraints> {
  return callOf(options, { method: 'PUT', path: `${organisationPath(id)}/private-hosts`, json: { privateHosts } });
}

/** Figures of the installation, in Prometheus' text format; for an admin or auditor of who runs it. */
export async function getMetrics(options: Options = {}): Promise<string> {
  const signal = signalOf(options);
  return (await new Transport(options).send({ method: 'GET', path: '/metrics', signal })).text();
}

type Call = Parameters<Transport['json']>[0];

function callOf<T>(options: Options, call: Call): Promise<T> {
  return new Transport(options).json({ ...call, signal: signalOf(options) });
}

function listOf(path: string, options: Options) {
  return [new Transport(options), path, {}, signalOf(options)] as const;
}

function projectPath(idOrName: string): string {
  return `/v1/projects/${encodeURIComponent(idOrName)}`;
}

function organisationPath(id: string): string {
  return `/v1/organisations/${encodeURIComponent(id)}`;
}
