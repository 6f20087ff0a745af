/**
 * Names of things. An id is a type prefix and 16 lower-case base-32 letters (80 random bits), so that a reader sees what
 * an id names, and an id of one kind cannot be passed for another: each kind is a branded string, made by `newId` and
 * recognised by `parseId`, nowhere else.
 */

/** Length of the random part: 16 letters of 5 bits each. */
const RANDOM_LETTERS = 16;
/** Crockford's base 32: no i, l, o, u, so an id is hard to misread. */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

const PREFIXES = {
  sandbox: 'sbx',
  snapshot: 'snp',
  life: 'lif',
  operation: 'opn',
  process: 'prc',
  apiKey: 'key',
  organisation: 'org',
  project: 'prj',
  audit: 'aud',
  schedule: 'sch',
  run: 'run',
  share: 'shr',
  egress: 'egr',
  approval: 'apr',
  template: 'tpl',
  build: 'bld',
} as const;

export type IdKind = keyof typeof PREFIXES;
export type Id<K extends IdKind> = string & { readonly __kind: K };

export type SandboxId = Id<'sandbox'>;
export type SnapshotId = Id<'snapshot'>;
export type LifeId = Id<'life'>;
export type OperationId = Id<'operation'>;
export type ProcessId = Id<'process'>;
export type ApiKeyId = Id<'apiKey'>;
export type OrganisationId = Id<'organisation'>;
export type ScheduleId = Id<'schedule'>;
export type RunId = Id<'run'>;
export type AuditId = Id<'audit'>;
export type ProjectId = Id<'project'>;
export type ShareId = Id<'share'>;
export type EgressId = Id<'egress'>;
export type ApprovalId = Id<'approval'>;
export type TemplateId = Id<'template'>;
export type BuildId = Id<'build'>;

/** The name of a vault, e.g. `default`: lower-case letters, digits and dashes. */
export type VaultName = string & { readonly __kind: 'vault' };

/** Source of chance; a port, so that a simulation can run under a seed. */
export interface Chance {
  /** `count` random bytes, fit for keys. */
  bytes(count: number): Uint8Array;
}

export function newId<K extends IdKind>(kind: K, chance: Chance): Id<K> {
  const letters = Array.from(chance.bytes(RANDOM_LETTERS), (byte) => ALPHABET[byte & 31]).join('');
  return `${PREFIXES[kind]}_${letters}` as Id<K>;
}

const PATTERN = /^[a-z]{3}_[0-9a-hjkmnp-tv-z]{16}$/;

/** The id, or `undefined` when the text is not an id of that kind. */
export function parseId<K extends IdKind>(kind: K, text: string): Id<K> | undefined {
  return PATTERN.test(text) && text.startsWith(`${PREFIXES[kind]}_`) ? (text as Id<K>) : undefined;
}

/** A sandbox's hostname: its id with the underscore that DNS does not allow replaced. */
export function hostnameOf(id: SandboxId): string {
  return id.replace('_', '-');
}

export const DEFAULT_VAULT = 'default' as VaultName;

/** Made with the database: the organisation that runs the installation, and its first project. */
export const DEFAULT_ORGANISATION = 'org_0000000000000000' as OrganisationId;
export const DEFAULT_PROJECT = 'prj_0000000000000000' as ProjectId;

/** Who the audit names for what the platform does by itself. No key has it. */
export const PLATFORM_KEY = 'key_0000000000000000' as ApiKeyId;
