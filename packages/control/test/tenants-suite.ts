/** What every adapter of the records does about organisations, projects and keys. */
import { type ApiKeyId, DEFAULT_ORGANISATION, DEFAULT_PROJECT, NO_CONSTRAINTS, NO_LIMITS, newId } from '@space/core';
import { seededChance } from '@space/testkit';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Records } from '../src/records.ts';
import type { RecordedApiKey, TenantRecords } from '../src/tenant-records.ts';

const chance = seededChance(Date.now());
let clockMs = 1_700_000_000_000;
const tick = () => new Date(clockMs++);
const FIRST = { limit: 100 };

function newKey(changes: Partial<RecordedApiKey> = {}): RecordedApiKey {
  return {
    id: newId('apiKey', chance),
    organisationId: DEFAULT_ORGANISATION,
    projectId: null,
    name: null,
    roles: ['admin'],
    prefix: 'space_ab',
    sha256: Buffer.from(chance.bytes(32)),
    createdAt: tick(),
    revokedAt: null,
    ...changes,
  };
}

export function tenantsSuite(suite: string, open: () => Promise<Records>): void {
  describe(`tenants: ${suite}`, () => {
    let tenants: TenantRecords;
    beforeEach(async () => {
      ({ tenants } = await open());
    });

    async function newOrganisation(name: string) {
      const organisation = {
        id: newId('organisation', chance),
        name,
        operator: false,
        limits: NO_LIMITS,
        network: NO_CONSTRAINTS,
        createdAt: tick(),
      };
      const { id: organisationId } = organisation;
      const project = {
        id: newId('project', chance),
        organisationId,
        name: 'default',
        snapshotPolicy: {},
        createdAt: organisation.createdAt,
      };
      const key = newKey({ organisationId });
      await tenants.addOrganisation(organisation, project, key);
      return { organisation, project, key };
    }

    it('begin with the organisation that runs the installation, its project, and no key', async () => {
      expect(await tenants.findOrganisation(DEFAULT_ORGANISATION)).toMatchObject({ name: 'default', operator: true });
      expect((await tenants.listOrganisations(FIRST)).items).toHaveLength(1);
      expect(await tenants.findProject(DEFAULT_ORGANISATION, DEFAULT_PROJECT)).toMatchObject({ name: 'default' });
      expect(await tenants.findOrganisationOf(DEFAULT_PROJECT)).toMatchObject({ id: DEFAULT_ORGANISATION });
      expect(await tenants.hasApiKeys()).toBe(false);
    });

    it('record an organisation with its first project and key, or none of them', async () => {
      const { organisation, project, key } = await newOrganisation('acme');
      expect(await tenants.findOrganisation(organisation.id)).toEqual(organisation);
      expect(await tenants.findOrganisationOf(project.id)).toEqual(organisation);
      const holder = { key, operator: false, firstProject: project.id };
      expect(await tenants.findKeyHolder(key.sha256)).toEqual(holder);
      await expect(newOrganisation('acme')).rejects.toMatchObject({
        code: 'name_taken',
        facts: { name: expect.any(String) },
      });
      expect((await tenants.listOrganisations(FIRST)).items.map(({ name }) => name).toSorted()).toEqual([
        'acme',
        'default',
      ]);
    });

    it('find a project in its own organisation only', async () => {
      const { organisation, project, key } = await newOrganisation('acme');
      expect(await tenants.findProject(organisation.id, project.id)).toEqual(project);
      expect(await tenants.findProject(DEFAULT_ORGANISATION, project.id)).toBeNull();
      expect(await tenants.organisationOf(project.id)).toBe(organisation.id);
      expect(await tenants.organisationOf(newId('project', chance))).toBeNull();
      expect(await tenants.findOrganisationOf(newId('project', chance))).toBeNull();
      const second = { ...project, id: newId('project', chance), name: 'second' };
      await tenants.addProject(second);
      await expect(tenants.addProject({ ...second, id: newId('project', chance) })).rejects.toMatchObject({
        code: 'name_taken',
      });
      expect(await tenants.findProjectByName(organisation.id, 'second')).toEqual(second);
      expect(await tenants.findProjectByName(DEFAULT_ORGANISATION, 'second')).toBeNull();
      expect(await tenants.findKeyHolder(key.sha256)).toMatchObject({ firstProject: project.id });
      const listed = async (only: typeof project.id | null) =>
        (await tenants.listProjects({ ...FIRST, organisationId: organisation.id, only })).items.map(({ id }) => id);
      expect(new Set(await listed(null))).toEqual(new Set([project.id, second.id]));
      expect(await listed(second.id)).toEqual([second.id]);
    });

    it('take another name that is free, and no other', async () => {
      const { organisation, project } = await newOrganisation('acme');
      const second = { ...project, id: newId('project', chance), name: 'second' };
      await tenants.addProject(second);
      const renamed = { ...second, name: 'third' };
      expect(await tenants.updateProject(second.id, { name: 'third' })).toEqual(renamed);
      expect(await tenants.findProjectByName(organisation.id, 'third')).toEqual(renamed);
      const taken = { code: 'name_taken', facts: { name: 'default' } };
      await expect(tenants.updateProject(second.id, { name: 'default' })).rejects.toMatchObject(taken);
      expect(await tenants.updateProject(newId('project', chance), { name: 'fourth' })).toBeNull();
      expect(await tenants.renameOrganisation(organisation.id, 'other')).toEqual({ ...organisation, name: 'other' });
      await expect(tenants.renameOrganisation(organisation.id, 'default')).rejects.toMatchObject(taken);
      expect(await tenants.renameOrganisation(newId('organisation', chance), 'none')).toBeNull();
    });

    it('delete a project once, with the keys that reach only it, and never the last, whoever deletes at once', async () => {
      const { organisation, project, key } = await newOrganisation('acme');
      const organisationId = organisation.id;
      const second = { ...project, id: newId('project', chance), name: 'second' };
      await tenants.addProject(second);
      const narrow = newKey({ organisationId, projectId: second.id });
      await tenants.addApiKey(narrow);
      const remove = (id: typeof project.id) => tenants.deleteProject(organisationId, id, { force: false, at: tick() });
      expect(await remove(second.id)).toBe('deleted');
      expect(await remove(second.id)).toBe('absent');
      expect(await tenants.updateProject(second.id, { name: 'new' })).toBeNull();
      expect(await tenants.findProject(organisationId, second.id)).toBeNull();
      expect(await tenants.findKeyHolder(narrow.sha256)).toBeNull();
      expect(await tenants.findKeyHolder(key.sha256)).not.toBeNull();
      expect(await remove(project.id)).toBe('last');
      const again = { ...second, id: newId('project', chance) };
      await tenants.addProject(again);
      expect((await Promise.all([remove(project.id), remove(again.id)])).toSorted()).toEqual(['deleted', 'last']);
      expect(await tenants.projectsToPurge()).toEqual([]);
    });

    it('list in pages, newest first', async () => {
      const keys = [newKey(), newKey(), newKey()];
      for (const key of keys) await tenants.addApiKey(key);
      const page = { organisationId: DEFAULT_ORGANISATION, limit: 2 };
      const first = await tenants.listApiKeys(page);
      const rest = await tenants.listApiKeys({ ...page, cursor: first.next ?? '' });
      expect([...first.items, ...rest.items].map(({ id }) => id)).toEqual(keys.map(({ id }) => id).reverse());
      expect(rest.next).toBeNull();
    });

    it('never find a revoked key again, and keep its first time', async () => {
      const key = newKey({ roles: ['viewer'] });
      await tenants.addApiKey(key);
      expect(await tenants.findKeyHolder(key.sha256)).toEqual({ key, operator: true, firstProject: DEFAULT_PROJECT });
      const at = tick();
      expect(await tenants.revokedAmong([key.id])).toEqual([]);
      expect(await tenants.revokeApiKey(DEFAULT_ORGANISATION, key.id, at)).toBe('revoked');
      expect(await tenants.revokeApiKey(DEFAULT_ORGANISATION, key.id, tick())).toBe('revoked');
      expect(await tenants.findKeyHolder(key.sha256)).toBeNull();
      expect(await tenants.revokedAmong([key.id, newId('apiKey', chance)])).toEqual([key.id]);
      const { items } = await tenants.listApiKeys({ ...FIRST, organisationId: DEFAULT_ORGANISATION });
      expect(items).toMatchObject([{ id: key.id, revokedAt: at }]);
      expect(await tenants.hasApiKeys()).toBe(true);
    });

    it('revoke no key of another organisation', async () => {
      const { key, organisation } = await newOrganisation('acme');
      expect(await tenants.revokeApiKey(DEFAULT_ORGANISATION, key.id, tick())).toBe('absent');
      expect(await tenants.findKeyHolder(key.sha256)).not.toBeNull();
      expect(await tenants.revokeApiKey(organisation.id, newId('apiKey', chance), tick())).toBe('absent');
    });

    it('keep the last admin, also when two revoke each other at once', async () => {
      const keys = [
        newKey(),
        newKey(),
        newKey({ projectId: DEFAULT_PROJECT }),
        newKey({ roles: ['developer'] }),
      ] as const;
      for (const key of keys) await tenants.addApiKey(key);
      const revoke = (id: ApiKeyId) => tenants.revokeApiKey(DEFAULT_ORGANISATION, id, tick());
      const both = await Promise.all([revoke(keys[0].id), revoke(keys[1].id)]);
      expect(both.toSorted()).toEqual(['last_admin', 'revoked']);
      expect(await revoke(keys[2].id)).toBe('revoked');
      expect(await revoke(keys[3].id)).toBe('revoked');
    });
  });
}
