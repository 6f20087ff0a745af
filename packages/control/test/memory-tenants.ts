/** Organisations, projects and keys in memory, for tests. */
import {
  type ApiKeyId,
  AppError,
  DEFAULT_ORGANISATION,
  DEFAULT_PROJECT,
  type Limits,
  type NetworkConstraints,
  NO_CONSTRAINTS,
  NO_LIMITS,
  type OrganisationId,
  type ProjectId,
  type Usage,
} from '@space/core';
import { eventOfRevocation, type NewEvent } from '../src/event-records.ts';
import { paginate } from '../src/page.ts';
import type { PageRequest } from '../src/records.ts';
import type {
  ProjectChanges,
  ProjectDeletion,
  RecordedApiKey,
  RecordedOrganisation,
  RecordedProject,
  Revocation,
  TenantRecords,
} from '../src/tenant-records.ts';

const BEGINNING = new Date(0);

export class MemoryTenants implements TenantRecords {
  readonly #turn: () => Promise<void>;
  readonly #tell: (event: NewEvent) => void;
  readonly #usageOf: (isOwn: (projectId: ProjectId) => boolean) => Usage;
  readonly #organisations = new Map<string, RecordedOrganisation>();
  readonly #projects = new Map<string, RecordedProject>();
  readonly #keys = new Map<string, RecordedApiKey>();
  readonly #deleted = new Set<ProjectId>();

  constructor(
    turn: () => Promise<void>,
    usageOf: (isOwn: (projectId: ProjectId) => boolean) => Usage,
    tell: (event: NewEvent) => void,
  ) {
    this.#tell = tell;
    this.#turn = turn;
    this.#usageOf = usageOf;
    const organisation = {
      id: DEFAULT_ORGANISATION,
      name: 'default',
      operator: true,
      limits: NO_LIMITS,
      network: NO_CONSTRAINTS,
      createdAt: BEGINNING,
    };
    this.#organisations.set(organisation.id, organisation);
    const project = {
      id: DEFAULT_PROJECT,
      organisationId: organisation.id,
      name: 'default',
      snapshotPolicy: {},
      createdAt: BEGINNING,
    };
    this.#projects.set(project.id, project);
  }

  async addOrganisation(organisation: RecordedOrganisation, project: RecordedProject, key: RecordedApiKey) {
    await this.#turn();
    const taken = [...this.#organisations.values()].some((one) => one.name === organisation.name);
    if (taken) throw nameTaken(organisation.name);
    this.#organisations.set(organisation.id, organisation);
    this.#projects.set(project.id, project);
    this.#keys.set(key.id, key);
  }

  async findOrganisation(id: OrganisationId) {
    await this.#turn();
    return this.#organisations.get(id) ?? null;
  }

  async setLimits(id: OrganisationId, limits: Limits) {
    await this.#turn();
    const organisation = this.#organisations.get(id);
    if (organisation !== undefined) this.#organisations.set(id, { ...organisation, limits });
    return organisation !== undefined;
  }

  async setNetwork(id: OrganisationId, changes: Partial<NetworkConstraints>) {
    await this.#turn();
    const organisation = this.#organisations.get(id);
    if (organisation === undefined) return null;
    const network = { ...organisation.network, ...changes };
    this.#organisations.set(id, { ...organisation, network });
    return network;
  }

  async usage(id: OrganisationId) {
    await this.#turn();
    return this.#usageOf((projectId) => this.#projects.get(projectId)?.organisationId === id);
  }

  /** In the turn of a change that it belongs to: the limits that hold in a project, and what its organisation has. */
  standingOf(projectId: ProjectId): { readonly limits: Limits; readonly usage: Usage } {
    const id = this.#projects.get(projectId)?.organisationId;
    const usage = this.#usageOf((other) => this.#projects.get(other)?.organisationId === id);
    return { limits: (id === undefined ? undefined : this.#organisations.get(id))?.limits ?? NO_LIMITS, usage };
  }

  async listOrganisations(page: PageRequest) {
    await this.#turn();
    return paginate([...this.#organisations.values()], page, (one) => one.createdAt);
  }

  async addProject(project: RecordedProject) {
    await this.#turn();
    if (this.#projectsOf(project.organisationId).some((one) => one.name === project.name))
      throw nameTaken(project.name);
    this.#projects.set(project.id, project);
  }

  async renameOrganisation(id: OrganisationId, name: string) {
    await this.#turn();
    const now = this.#organisations.get(id);
    if (now === undefined) return null;
    if ([...this.#organisations.values()].some((one) => one.id !== id && one.name === name)) throw nameTaken(name);
    this.#organisations.set(id, { ...now, name });
    return { ...now, name };
  }

  async deleteProject(
    organisationId: OrganisationId,
    id: ProjectId,
    { force, at }: { readonly force: boolean; readonly at: Date },
  ): Promise<ProjectDeletion> {
    await this.#turn();
    const own = this.#projectsOf(organisationId);
    if (!own.some((one) => one.id === id)) return 'absent';
    if (own.length === 1) return 'last';
    if (!force && this.#isFull(id)) return 'not_empty';
    this.#deleted.add(id);
    for (const key of this.#keys.values()) {
      if (key.projectId !== id || key.revokedAt !== null) continue;
      this.#keys.set(key.id, { ...key, revokedAt: at });
      this.#tell(eventOfRevocation(organisationId, key.id, at));
    }
    return 'deleted';
  }

  async projectsToPurge() {
    await this.#turn();
    return [...this.#deleted].filter((id) => this.#isFull(id));
  }

  async findProject(organisationId: OrganisationId, id: ProjectId) {
    await this.#turn();
    return this.#projectsOf(organisationId).find((one) => one.id === id) ?? null;
  }

  async organisationOf(id: ProjectId) {
    await this.#turn();
    return this.#projects.get(id)?.organisationId ?? null;
  }

  async findOrganisationOf(id: ProjectId) {
    await this.#turn();
    const project = this.#projects.get(id);
    return project === undefined ? null : (this.#organisations.get(project.organisationId) ?? null);
  }

  async updateProject(id: ProjectId, changes: ProjectChanges) {
    await this.#turn();
    const now = this.#projects.get(id);
    if (now === undefined || this.#deleted.has(id)) return null;
    const after = { ...now, ...changes };
    const others = this.#projectsOf(now.organisationId).filter((one) => one.id !== id);
    if (others.some((one) => one.name === after.name)) throw nameTaken(after.name);
    this.#projects.set(id, after);
    return after;
  }

  async snapshotPolicies(only?: ProjectId) {
    await this.#turn();
    const wanted = [...this.#projects.values()].filter(({ id }) => only === undefined || id === only);
    return new Map(wanted.map(({ id, snapshotPolicy }) => [id, snapshotPolicy]));
  }

  async findProjectByName(organisationId: OrganisationId, name: string) {
    await this.#turn();
    return this.#projectsOf(organisationId).find((one) => one.name === name) ?? null;
  }

  async listProjects(page: PageRequest & { organisationId: OrganisationId; only: ProjectId | null }) {
    await this.#turn();
    const reached = this.#projectsOf(page.organisationId).filter((one) => page.only === null || one.id === page.only);
    return paginate(reached, page, (one) => one.createdAt);
  }

  async addApiKey(key: RecordedApiKey) {
    await this.#turn();
    this.#keys.set(key.id, key);
  }

  async findKeyHolder(sha256: Uint8Array) {
    await this.#turn();
    return this.#holderOf([...this.#keys.values()].find((one) => Buffer.from(one.sha256).equals(sha256)));
  }

  async findKeyHolderById(id: ApiKeyId) {
    await this.#turn();
    return this.#holderOf(this.#keys.get(id));
  }

  #holderOf(key: RecordedApiKey | undefined) {
    if (key === undefined || key.revokedAt !== null) return null;
    const { operator = false } = this.#organisations.get(key.organisationId) ?? {};
    return { key, operator, firstProject: this.#projectsOf(key.organisationId)[0]?.id ?? null };
  }

  async listApiKeys(page: PageRequest & { organisationId: OrganisationId }) {
    await this.#turn();
    const own = [...this.#keys.values()].filter((key) => key.organisationId === page.organisationId);
    return paginate(own, page, (key) => key.createdAt);
  }

  async revokeApiKey(organisationId: OrganisationId, id: ApiKeyId, at: Date): Promise<Revocation> {
    await this.#turn();
    const key = this.#keys.get(id);
    if (key?.organisationId !== organisationId) return 'absent';
    if (key.revokedAt !== null) return 'revoked';
    const admins = [...this.#keys.values()].filter((one) => one.organisationId === organisationId && isAdmin(one));
    if (isAdmin(key) && admins.length === 1) return 'last_admin';
    this.#keys.set(id, { ...key, revokedAt: at });
    this.#tell(eventOfRevocation(organisationId, id, at));
    return 'revoked';
  }

  async revokedAmong(ids: readonly ApiKeyId[]) {
    await this.#turn();
    return ids.filter((id) => (this.#keys.get(id)?.revokedAt ?? null) !== null);
  }

  async hasApiKeys() {
    await this.#turn();
    return this.#keys.size > 0;
  }

  #isFull(id: ProjectId): boolean {
    const { sandboxes, snapshots } = this.#usageOf((projectId) => projectId === id);
    return sandboxes + snapshots > 0;
  }

  #projectsOf(organisationId: OrganisationId): RecordedProject[] {
    return [...this.#projects.values()].filter(
      (one) => one.organisationId === organisationId && !this.#deleted.has(one.id),
    );
  }
}

function isAdmin(key: RecordedApiKey): boolean {
  return key.revokedAt === null && key.projectId === null && key.roles.includes('admin');
}

function nameTaken(name: string): AppError {
  return new AppError('name_taken', { detail: `The name "${name}" is in use.`, facts: { name } });
}
