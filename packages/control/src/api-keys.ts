/** API keys: who holds one, and what it reaches. */
import {
  type ApiKeyId,
  AppError,
  DEFAULT_ORGANISATION,
  newId,
  type OrganisationId,
  type Principal,
  type ProjectId,
  parseId,
  type Role,
  reachesProject,
} from '@space/core';
import type { ReachHolder } from './face-records.ts';
import type { ControlPorts } from './ports.ts';
import { digestOf, isSecret, newSecret } from './secrets.ts';
import type { RecordedApiKey, RecordedProject, TenantRecords } from './tenant-records.ts';

const PREFIX = 'space_';
const SHOWN_LETTERS = PREFIX.length + 4;

export interface NewKey {
  readonly organisationId: OrganisationId;
  readonly projectId: ProjectId | null;
  readonly name: string | null;
  readonly roles: readonly Role[];
}

/** Who calls, and the project that is meant. */
export interface Identity {
  readonly principal: Principal;
  readonly projectId: ProjectId;
}

/** A key to record. `secretKey` is shown once and kept nowhere. */
export function mintKey(
  { chance, clock }: Pick<ControlPorts, 'chance' | 'clock'>,
  key: NewKey,
): { readonly secretKey: string; readonly record: RecordedApiKey } {
  const secretKey = newSecret(PREFIX, chance);
  const record: RecordedApiKey = {
    ...key,
    id: newId('apiKey', chance),
    prefix: secretKey.slice(0, SHOWN_LETTERS),
    sha256: digestOf(secretKey),
    createdAt: new Date(clock.now()),
    revokedAt: null,
  };
  return { secretKey, record };
}

/** Makes and records a key of an admin of the organisation that runs the installation. */
export async function createApiKey(
  ports: Pick<ControlPorts, 'records' | 'chance' | 'clock'>,
): Promise<{ readonly id: ApiKeyId; readonly secretKey: string }> {
  const admin: NewKey = { organisationId: DEFAULT_ORGANISATION, projectId: null, name: null, roles: ['admin'] };
  const { secretKey, record } = mintKey(ports, admin);
  await ports.records.tenants.addApiKey(record);
  return { id: record.id, secretKey };
}

/**
 * Null: the key is none of ours, or is revoked. `project` is the id or the name that the request gives; without one, it is
 * the key's only project, or the first of its organisation. Throws `not_found` for one that the key does not reach.
 */
export async function identify(
  { tenants }: { readonly tenants: TenantRecords },
  given: string,
  project: string | undefined,
): Promise<Identity | null> {
  if (!isSecret(PREFIX, given)) return null;
  const holder = await tenants.findKeyHolder(digestOf(given));
  if (holder === null) return null;
  const { firstProject } = holder;
  const principal = principalOf(holder);
  const { onlyProject } = principal;
  if (project !== undefined) return { principal, projectId: (await findProject(tenants, principal, project)).id };
  const projectId = onlyProject ?? firstProject;
  if (projectId === null) throw new AppError('not_found', 'The organisation has no project.');
  return { principal, projectId };
}

function principalOf({ operator, key }: ReachHolder): Principal {
  const { id: apiKeyId, organisationId, projectId: onlyProject, roles } = key;
  return { apiKeyId, organisationId, operator, onlyProject, roles };
}

/** The holder of a key, who means that project. */
export function identityOf(holder: ReachHolder, projectId: ProjectId): Identity {
  return { principal: principalOf(holder), projectId };
}

/** By id or name, among those that the principal reaches. */
export async function findProject(
  tenants: TenantRecords,
  principal: Principal,
  reference: string,
): Promise<RecordedProject> {
  const { organisationId } = principal;
  const found = await lookUp(tenants, organisationId, reference);
  if (found === null || !reachesProject(principal, found.id)) {
    throw new AppError('not_found', `There is no project "${reference}".`);
  }
  return found;
}

function lookUp(tenants: TenantRecords, organisationId: OrganisationId, reference: string) {
  const id = parseId('project', reference);
  return id === undefined
    ? tenants.findProjectByName(organisationId, reference)
    : tenants.findProject(organisationId, id);
}
