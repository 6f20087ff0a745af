/**
 * The part of the records that says who there is: organisations, their projects and their API keys.
 *
 * - New records hold the default organisation, which runs the installation, and its default project; nothing else.
 * - A project, and a key, belong to one organisation for good. A name is unique: an organisation's among all, a project's in
 *   its organisation.
 * - A revoked key stays, and never works again. An organisation that has an admin key of all its projects keeps one.
 */
import type {
  ApiKeyId,
  Limits,
  NetworkConstraints,
  OrganisationId,
  PolicyChoice,
  ProjectId,
  Role,
  Usage,
} from '@space/core';
import type { Page, PageRequest } from './records.ts';

export interface RecordedOrganisation {
  readonly id: OrganisationId;
  readonly name: string;
  /** Whether it runs the installation. */
  readonly operator: boolean;
  readonly limits: Limits;
  /** What stands above the policies of its sandboxes. */
  readonly network: NetworkConstraints;
  readonly createdAt: Date;
}

export interface RecordedProject {
  readonly id: ProjectId;
  readonly organisationId: OrganisationId;
  readonly name: string;
  /** Of its sandboxes that do not say it themselves. */
  readonly snapshotPolicy: PolicyChoice;
  readonly createdAt: Date;
}

export interface RecordedApiKey {
  readonly id: ApiKeyId;
  readonly organisationId: OrganisationId;
  /** The only project that it reaches; null: all of its organisation. */
  readonly projectId: ProjectId | null;
  readonly name: string | null;
  readonly roles: readonly Role[];
  /** The first letters of the key, for display. */
  readonly prefix: string;
  readonly sha256: Uint8Array;
  readonly createdAt: Date;
  readonly revokedAt: Date | null;
}

/** A key that works, and what each call by it needs to know of its organisation. */
export interface KeyHolder {
  readonly key: RecordedApiKey;
  /** Whether the organisation runs the installation. */
  readonly operator: boolean;
  /** The project that was made with the organisation, or the oldest that is left. */
  readonly firstProject: ProjectId | null;
}

export interface TenantRecords {
  /** With its first project and its first key, all or none. Throws `name_taken`. */
  addOrganisation(organisation: RecordedOrganisation, project: RecordedProject, key: RecordedApiKey): Promise<void>;
  findOrganisation(id: OrganisationId): Promise<RecordedOrganisation | null>;
  /** False: there is none. */
  setLimits(id: OrganisationId, limits: Limits): Promise<boolean>;
  /** Null: there is none. */
  setNetwork(id: OrganisationId, changes: Partial<NetworkConstraints>): Promise<NetworkConstraints | null>;
  /** Counted from what is recorded. */
  usage(id: OrganisationId): Promise<Usage>;
  /** Newest first. */
  listOrganisations(page: PageRequest): Promise<Page<RecordedOrganisation>>;

  /** Throws `name_taken`. */
  addProject(project: RecordedProject): Promise<void>;
  /** Null: there is none. Throws `name_taken`. */
  renameOrganisation(id: OrganisationId, name: string): Promise<RecordedOrganisation | null>;
  /**
   * From then on it is not found, its name is free, and the keys that reach only it are revoked. What it holds is to be
   * removed. Unless `force`, one that holds sandboxes or snapshots stays.
   */
  deleteProject(
    organisationId: OrganisationId,
    id: ProjectId,
    how: { readonly force: boolean; readonly at: Date },
  ): Promise<ProjectDeletion>;
  /** Those that are deleted and hold something still. */
  projectsToPurge(): Promise<readonly ProjectId[]>;
  findProject(organisationId: OrganisationId, id: ProjectId): Promise<RecordedProject | null>;
  /** Whose project it is; null: nobody's. */
  findOrganisationOf(id: ProjectId): Promise<RecordedOrganisation | null>;
  organisationOf(id: ProjectId): Promise<OrganisationId | null>;
  findProjectByName(organisationId: OrganisationId, name: string): Promise<RecordedProject | null>;
  /** Null: there is none. */
  updateProject(id: ProjectId, changes: ProjectChanges): Promise<RecordedProject | null>;
  /** Of the projects that have any, or of only one. */
  snapshotPolicies(only?: ProjectId): Promise<ReadonlyMap<ProjectId, PolicyChoice>>;
  /** Newest first; all, or only one. */
  listProjects(
    page: PageRequest & { readonly organisationId: OrganisationId; readonly only: ProjectId | null },
  ): Promise<Page<RecordedProject>>;

  addApiKey(key: RecordedApiKey): Promise<void>;
  /** Null: there is none, or it is revoked. */
  findKeyHolder(sha256: Uint8Array): Promise<KeyHolder | null>;
  findKeyHolderById(id: ApiKeyId): Promise<KeyHolder | null>;
  /** Newest first, the revoked ones too. */
  listApiKeys(page: PageRequest & { readonly organisationId: OrganisationId }): Promise<Page<RecordedApiKey>>;
  /** Idempotent: a revoked key keeps its time. */
  revokeApiKey(organisationId: OrganisationId, id: ApiKeyId, at: Date): Promise<Revocation>;
  /** Those of the keys that are revoked. */
  revokedAmong(ids: readonly ApiKeyId[]): Promise<readonly ApiKeyId[]>;
  /** Whether there ever was one. */
  hasApiKeys(): Promise<boolean>;
}

export type ProjectChanges = Partial<Pick<RecordedProject, 'name' | 'snapshotPolicy'>>;
export type ProjectDeletion = 'deleted' | 'absent' | 'not_empty' | 'last';
export type Revocation = 'revoked' | 'absent' | 'last_admin';
