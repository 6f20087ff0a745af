/** The use-cases on organisations, projects and API keys. */
import type {
  ApiKeyList,
  Caller,
  CreatedApiKey,
  CreatedOrganisation,
  Input,
  LimitsAndUsage,
  Organisation,
  OrganisationList,
  Project,
  ProjectList,
} from '@space/contract';
import { type ApiKeyId, AppError, NO_CONSTRAINTS, NO_LIMITS, newId, unreachable } from '@space/core';
import { findProject, mintKey } from './api-keys.ts';
import type { GrantWatch } from './grant-watch.ts';
import type { ControlPorts } from './ports.ts';
import type { ProjectPurge } from './project-purge.ts';
import type { RecordedProject } from './tenant-records.ts';
import { viewApiKey, viewOrganisation, viewProject } from './views.ts';

const FIRST_PROJECT = 'default';

export class TenantUseCases {
  readonly #ports: ControlPorts;
  readonly #keys: GrantWatch<ApiKeyId>;
  readonly #purge: ProjectPurge;

  constructor(ports: ControlPorts, keys: GrantWatch<ApiKeyId>, purge: ProjectPurge) {
    this.#purge = purge;
    this.#ports = ports;
    this.#keys = keys;
  }

  async listProjects({ principal }: Caller, input: Input<'listProjects'>): Promise<ProjectList> {
    const { organisationId, onlyProject: only } = principal;
    const { items, next } = await this.#ports.records.tenants.listProjects({ ...input, organisationId, only });
    return { projects: items.map(viewProject), nextCursor: next };
  }

  async createProject({ principal }: Caller, { name }: Input<'createProject'>): Promise<Project> {
    const { chance, clock, records } = this.#ports;
    const { organisationId } = principal;
    const project = {
      id: newId('project', chance),
      organisationId,
      name,
      snapshotPolicy: {},
      createdAt: new Date(clock.now()),
    };
    await records.tenants.addProject(project);
    return viewProject(project);
  }

  async getProject({ principal }: Caller, { id }: Input<'getProject'>): Promise<Project> {
    return viewProject(await findProject(this.#ports.records.tenants, principal, id));
  }

  async updateProject({ principal }: Caller, { id, name, snapshots }: Input<'updateProject'>): Promise<Project> {
    const { tenants } = this.#ports.records;
    const project = await findProject(tenants, principal, id);
    const changed = await tenants.updateProject(project.id, {
      ...(name === undefined ? {} : { name }),
      ...(snapshots === undefined ? {} : { snapshotPolicy: { ...project.snapshotPolicy, ...snapshots } }),
    });
    if (changed === null) throw new AppError('not_found', `There is no project "${id}".`);
    return viewProject(changed);
  }

  /** Answers when it is empty. What cannot be removed now is removed by and by: nobody reaches it any more. */
  async deleteProject({ principal }: Caller, { id, force }: Input<'deleteProject'>): Promise<void> {
    const { records, clock, logger } = this.#ports;
    const project = await findProject(records.tenants, principal, id);
    const how = { force, at: new Date(clock.now()) };
    const deletion = await records.tenants.deleteProject(principal.organisationId, project.id, how);
    switch (deletion) {
      case 'absent':
        throw new AppError('not_found', `There is no project "${id}".`);
      case 'not_empty':
        throw new AppError('project_not_empty', `The project "${project.name}" holds sandboxes or snapshots.`);
      case 'last':
        throw new AppError('last_project', `"${project.name}" is the only project of the organisation.`);
      case 'deleted':
        await this.#purge
          .purge(project.id)
          .catch((err: unknown) => logger.warn({ projectId: project.id, err }, 'a deleted project is not empty yet'));
        return;
      default:
        unreachable(deletion);
    }
  }

  async listKeys({ principal }: Caller, input: Input<'listKeys'>): Promise<ApiKeyList> {
    const { organisationId } = principal;
    const { items, next } = await this.#ports.records.tenants.listApiKeys({ ...input, organisationId });
    return { keys: items.map(viewApiKey), nextCursor: next };
  }

  async createKey({ principal }: Caller, input: Input<'createKey'>): Promise<CreatedApiKey> {
    const { tenants } = this.#ports.records;
    const project = input.project === undefined ? null : await findProject(tenants, principal, input.project);
    const { secretKey, record } = mintKey(this.#ports, {
      organisationId: principal.organisationId,
      projectId: project?.id ?? null,
      name: input.name ?? null,
      roles: input.roles,
    });
    await tenants.addApiKey(record);
    return { ...viewApiKey(record), secretKey };
  }

  async revokeKey({ principal }: Caller, { id }: Input<'revokeKey'>): Promise<void> {
    const { records, clock } = this.#ports;
    const { organisationId } = principal;
    const revocation = await records.tenants.revokeApiKey(organisationId, id, new Date(clock.now()));
    if (revocation === 'absent') throw new AppError('not_found', `There is no API key "${id}".`);
    if (revocation === 'last_admin') {
      throw new AppError('last_admin', 'Without it, nobody could make another key of the organisation.');
    }
    this.#keys.revoked(id);
  }

  async listOrganisations(_caller: Caller, input: Input<'listOrganisations'>): Promise<OrganisationList> {
    const { items, next } = await this.#ports.records.tenants.listOrganisations(input);
    return { organisations: items.map(viewOrganisation), nextCursor: next };
  }

  async updateOrganisation(_caller: Caller, { id, name }: Input<'updateOrganisation'>): Promise<Organisation> {
    const renamed = await this.#ports.records.tenants.renameOrganisation(id, name);
    if (renamed === null) throw new AppError('not_found', `There is no organisation "${id}".`);
    return viewOrganisation(renamed);
  }

  async setLimits(_caller: Caller, { id, ...changes }: Input<'setLimits'>): Promise<Organisation> {
    const { tenants } = this.#ports.records;
    const organisation = await tenants.findOrganisation(id);
    const limits = { ...(organisation?.limits ?? NO_LIMITS), ...changes };
    if (organisation === null || !(await tenants.setLimits(id, limits))) {
      throw new AppError('not_found', `There is no organisation "${id}".`);
    }
    return viewOrganisation({ ...organisation, limits });
  }

  async getLimits({ principal: { organisationId } }: Caller, _input: Input<'getLimits'>): Promise<LimitsAndUsage> {
    const { tenants } = this.#ports.records;
    const organisation = await tenants.findOrganisation(organisationId);
    return { limits: organisation?.limits ?? NO_LIMITS, present: await tenants.usage(organisationId) };
  }

  async createOrganisation(_caller: Caller, { name }: Input<'createOrganisation'>): Promise<CreatedOrganisation> {
    const { chance, clock, records } = this.#ports;
    const createdAt = new Date(clock.now());
    const organisation = {
      id: newId('organisation', chance),
      name,
      operator: false,
      limits: NO_LIMITS,
      network: NO_CONSTRAINTS,
      createdAt,
    };
    const { id: organisationId } = organisation;
    const project: RecordedProject = {
      id: newId('project', chance),
      organisationId,
      name: FIRST_PROJECT,
      snapshotPolicy: {},
      createdAt,
    };
    const minted = mintKey(this.#ports, { organisationId, projectId: null, name: null, roles: ['admin'] });
    await records.tenants.addOrganisation(organisation, project, minted.record);
    return {
      organisation: viewOrganisation(organisation),
      project: viewProject(project),
      key: { ...viewApiKey(minted.record), secretKey: minted.secretKey },
    };
  }
}
