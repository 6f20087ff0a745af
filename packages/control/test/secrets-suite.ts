/** What every adapter of the records does about secrets and their bindings. */
import { DEFAULT_ORGANISATION, DEFAULT_PROJECT, type OrganisationId, type SecretBinding } from '@space/core';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Records } from '../src/records.ts';
import { newSandbox, tick } from './records-suite.ts';

const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1_000);
const OWN = DEFAULT_ORGANISATION;
const LOCAL = { kind: 'local' } as const;
const STORED = { kind: 'store', store: 'vault', path: 'a/b', field: null } as const;

function binding(changes: Partial<SecretBinding> = {}): SecretBinding {
  return {
    name: 'api',
    secret: 'token',
    hosts: ['api.example.com'],
    ports: [443],
    methods: 'all',
    paths: ['/'],
    place: { in: 'header', name: 'X-Key', prefix: '' },
    projects: [DEFAULT_PROJECT],
    env: 'API_KEY',
    ...changes,
  };
}

export function secretsSuite(suite: string, open: () => Promise<Records>): void {
  describe(`secrets: ${suite}`, () => {
    let records: Records;
    beforeEach(async () => {
      records = await open();
    });

    it('have one of a name, and a version that goes up', async () => {
      const { secrets } = records;
      expect(await secrets.list(OWN)).toEqual([]);
      const first = await secrets.put(OWN, { name: 'token', source: LOCAL }, at(0));
      expect(first).toEqual({ name: 'token', source: LOCAL, version: 1, createdAt: at(0), updatedAt: at(0) });
      const second = await secrets.put(OWN, { name: 'token', source: STORED }, at(1));
      expect(second).toEqual({ name: 'token', source: STORED, version: 2, createdAt: at(0), updatedAt: at(1) });
      await secrets.put(OWN, { name: 'b', source: LOCAL }, at(2));
      expect((await secrets.list(OWN)).map(({ name }) => name)).toEqual(['b', 'token']);
      expect(await secrets.list('org_0000000000000009' as OrganisationId)).toEqual([]);
    });

    it('have bindings, which go with them', async () => {
      const { secrets } = records;
      expect(await secrets.putBinding(OWN, binding(), at(0))).toBeNull();
      await secrets.put(OWN, { name: 'token', source: LOCAL }, at(0));
      await secrets.put(OWN, { name: 'other', source: LOCAL }, at(0));
      const made = { ...binding(), createdAt: at(1), updatedAt: at(1) };
      expect(await secrets.putBinding(OWN, binding(), at(1))).toEqual(made);
      const changed = binding({ projects: 'all', ports: 'all', env: null });
      expect(await secrets.putBinding(OWN, changed, at(2))).toEqual({ ...changed, createdAt: at(1), updatedAt: at(2) });
      await secrets.putBinding(OWN, binding({ name: 'kept', secret: 'other' }), at(2));
      expect(await secrets.remove(OWN, 'token')).toBe(true);
      expect(await secrets.remove(OWN, 'token')).toBe(false);
      expect((await secrets.bindings(OWN)).map(({ name }) => name)).toEqual(['kept']);
      expect(await secrets.removeBinding(OWN, 'kept')).toBe(true);
      expect(await secrets.removeBinding(OWN, 'kept')).toBe(false);
    });

    it('are named by sandboxes', async () => {
      const grant = { binding: 'api', placeholder: 'space-secret-0123456789abcdefghjk', env: 'API_KEY' };
      const [plain, granted] = [newSandbox({}), newSandbox({ secrets: [grant] })];
      await records.addSandboxes([plain, granted]);
      expect((await records.findSandbox(plain.id))?.secrets).toEqual([]);
      expect((await records.findSandbox(granted.id))?.secrets).toEqual([grant]);
      await records.updateSandbox(granted.id, { secrets: [] }, tick());
      expect((await records.findSandbox(granted.id))?.secrets).toEqual([]);
    });

    it('may be missing where a sandbox has come to', async () => {
      const grant = { binding: 'api', placeholder: 'space-secret-0123456789abcdefghjk', env: null };
      const [plain, moved] = [newSandbox({}), newSandbox({ missingSecrets: [grant] })];
      await records.addSandboxes([plain, moved]);
      expect((await records.findSandbox(plain.id))?.missingSecrets).toEqual([]);
      expect(await records.findSandbox(moved.id)).toMatchObject({ secrets: [], missingSecrets: [grant] });
      await records.updateSandbox(moved.id, { secrets: [grant], missingSecrets: [] }, tick());
      expect(await records.findSandbox(moved.id)).toMatchObject({ secrets: [grant], missingSecrets: [] });
    });
  });
}
