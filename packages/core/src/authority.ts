/**
 * Who may do what: the one decision. A principal (the holder of an API key) has roles in one organisation; an action is
 * done on a resource, which is the installation, an organisation or a project. `authorise` says whether that is allowed;
 * nobody else does.
 *
 * - What lies in another organisation, or outside the project that a key is limited to, does not exist for the caller.
 * - What lies in reach is allowed when one of the caller's roles has the action in `ROLE_ACTIONS`.
 * - The installation's own actions need, beside the role, a key of the organisation that runs it.
 */
import type { ApiKeyId, OrganisationId, ProjectId } from './ids.ts';

export const ROLES = ['admin', 'developer', 'viewer', 'reviewer', 'auditor', 'key_holder'] as const;
export type Role = (typeof ROLES)[number];

/** Each action, and what it is done on. */
export const ACTIONS = {
  'organisation.read': 'installation',
  'organisation.manage': 'installation',
  'metrics.read': 'installation',
  'project.read': 'organisation',
  'project.manage': 'organisation',
  'limit.read': 'organisation',
  'network.read': 'organisation',
  'network.manage': 'organisation',
  'key.read': 'organisation',
  'key.manage': 'organisation',
  'audit.read': 'organisation',
  'secret.read': 'organisation',
  'secret.manage': 'organisation',
  'vault.read': 'organisation',
  'vault.key': 'organisation',
  'vault.unwrap': 'organisation',
  'platform.read': 'project',
  'operation.read': 'project',
  'event.read': 'project',
  'sandbox.read': 'project',
  'sandbox.create': 'project',
  'sandbox.use': 'project',
  'sandbox.change': 'project',
  'sandbox.delete': 'project',
  'schedule.read': 'project',
  'port.use': 'project',
  'share.read': 'project',
  'share.manage': 'project',
  'schedule.manage': 'project',
  'archive.export': 'project',
  'archive.import': 'project',
  'approval.read': 'project',
  'approval.decide': 'project',
  'binding.read': 'project',
  'archive.read': 'project',
  'template.read': 'project',
  'template.build': 'project',
  'template.delete': 'project',
  'archive.delete': 'project',
  'snapshot.read': 'project',
  'snapshot.take': 'project',
  'snapshot.change': 'project',
  'snapshot.delete': 'project',
} as const satisfies Record<string, ResourceKind>;

export type Action = keyof typeof ACTIONS;
export type ResourceKind = 'installation' | 'organisation' | 'project';

export type Resource =
  | { readonly kind: 'installation' }
  | { readonly kind: 'organisation'; readonly organisationId: OrganisationId }
  | { readonly kind: 'project'; readonly organisationId: OrganisationId; readonly projectId: ProjectId };

export interface Principal {
  readonly apiKeyId: ApiKeyId;
  readonly organisationId: OrganisationId;
  /** Whether its organisation runs the installation. */
  readonly operator: boolean;
  /** The only project that it reaches; null: all of its organisation. */
  readonly onlyProject: ProjectId | null;
  readonly roles: readonly Role[];
}

const READS = [
  'approval.read',
  'binding.read',
  'platform.read',
  'project.read',
  'limit.read',
  'network.read',
  'operation.read',
  'event.read',
  'sandbox.read',
  'schedule.read',
  'share.read',
  'snapshot.read',
  'archive.read',
  'template.read',
] as const;

/**
 * An admin may do whatever may be done, but for this: who decides is somebody else than who owns and who runs. So a key that has
 * sandboxes of its own, or makes keys, decides on nothing, whichever other roles it has: it would decide on itself.
 */
const REVIEWERS_OWN: readonly Action[] = ['approval.decide'];

/**
 * Nor may an admin do what the holder of the customer's keys does: make vaults under them, revoke, reinstate, shred. So a key that
 * has sandboxes, or makes keys, has no say over the keys that sandboxes are encrypted with, and the other way round.
 */
const KEY_HOLDERS_OWN: readonly Action[] = ['vault.key'];

/** What is in the audit and nobody may call: the platform has a KMS unwrap the key of a vault. */
const PLATFORMS_OWN: readonly Action[] = ['vault.unwrap'];
const NOT_AN_ADMINS: readonly Action[] = [...REVIEWERS_OWN, ...KEY_HOLDERS_OWN, ...PLATFORMS_OWN];

/** Sandboxes hold a tenant's content, so who only audits or holds keys sees none of it. */
export const ROLE_ACTIONS: Readonly<Record<Role, readonly Action[]>> = {
  admin: (Object.keys(ACTIONS) as Action[]).filter((action) => !NOT_AN_ADMINS.includes(action)),
  developer: [
    ...READS,
    'sandbox.create',
    'sandbox.use',
    'sandbox.change',
    'sandbox.delete',
    'schedule.manage',
    'port.use',
    'share.manage',
    'archive.export',
    'archive.import',
    'archive.delete',
    'template.build',
    'template.delete',
    'snapshot.take',
    'snapshot.change',
    'snapshot.delete',
  ],
  viewer: READS,
  reviewer: [...READS, ...REVIEWERS_OWN],
  auditor: [
    'platform.read',
    'project.read',
    'limit.read',
    'network.read',
    'key.read',
    'audit.read',
    'secret.read',
    'vault.read',
    'binding.read',
    'operation.read',
    'event.read',
    'organisation.read',
    'metrics.read',
  ],
  key_holder: [
    'platform.read',
    'project.read',
    'secret.read',
    'secret.manage',
    'binding.read',
    'vault.read',
    ...KEY_HOLDERS_OWN,
  ],
};

export type Authorisation =
  | { readonly allowed: true }
  /** `not_found`: for this caller it does not exist. `forbidden`: it does, and its roles do not reach. */
  | { readonly allowed: false; readonly code: 'not_found' | 'forbidden' };

const ALLOW: Authorisation = { allowed: true };
const OWNERS: readonly Role[] = ['admin', 'developer'];

/** Whether a key that has these roles may approve. Pure. */
export function canDecide(roles: readonly Role[]): boolean {
  return roles.includes('reviewer') && !roles.some((role) => OWNERS.includes(role));
}

/** Whether a key that has these roles may say what becomes of the keys of vaults. Pure. */
export function canHoldKeys(roles: readonly Role[]): boolean {
  return roles.includes('key_holder') && !roles.some((role) => OWNERS.includes(role));
}

const FORBIDDEN: Authorisation = { allowed: false, code: 'forbidden' };
const NOT_FOUND: Authorisation = { allowed: false, code: 'not_found' };

/** The resource must be of the kind that the action is done on. */
export function authorise(principal: Principal, action: Action, resource: Resource): Authorisation {
  if (ACTIONS[action] !== resource.kind) throw new Error(`${action} is not done on ${resource.kind}`);
  if (resource.kind !== 'installation' && resource.organisationId !== principal.organisationId) return NOT_FOUND;
  if (resource.kind === 'project' && !reachesProject(principal, resource.projectId)) return NOT_FOUND;
  if (!principal.roles.some((role) => ROLE_ACTIONS[role].includes(action))) return FORBIDDEN;
  if (REVIEWERS_OWN.includes(action) && !canDecide(principal.roles)) return FORBIDDEN;
  if (KEY_HOLDERS_OWN.includes(action) && !canHoldKeys(principal.roles)) return FORBIDDEN;
  if (resource.kind === 'installation' && !principal.operator) return FORBIDDEN;
  // A key of one project sees which project that is, and nothing else that is above projects.
  if (resource.kind !== 'project' && principal.onlyProject !== null && action !== 'project.read') return FORBIDDEN;
  return ALLOW;
}

export function reachesProject({ onlyProject }: Principal, projectId: ProjectId): boolean {
  return onlyProject === null || onlyProject === projectId;
}
