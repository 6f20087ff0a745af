/** What lies in a vault that its organisation would miss: while there is any, and its key is not revoked, it is not deleted. */
import { AppError, type TemplateId, type VaultName } from '@space/core';
import type { Page, PageRequest, Records } from './records.ts';
import type { RecordedVault } from './vault-records.ts';

const PAGE = 100;
/** So many are named. */
const NAMED = 10;

/** Throws `vault_in_use`, and names what it holds: sandboxes, named snapshots, builds of templates. */
export async function requireEmpty(records: Records, vault: RecordedVault): Promise<void> {
  const held: string[] = [];
  for await (const one of contentsOf(records, vault)) {
    held.push(one);
    if (held.length > NAMED) break;
  }
  if (held.length === 0) return;
  const named = `${held.slice(0, NAMED).join(', ')}${held.length > NAMED ? ' and more' : ''}`;
  throw new AppError('vault_in_use', {
    detail: `The vault ${vault.name} holds ${named}. Delete them, or revoke the vault first, to lose what it holds.`,
    facts: { vault: vault.name },
  });
}

async function* contentsOf(records: Records, { name, organisationId }: RecordedVault): AsyncGenerator<string, void> {
  for (const { id, vault } of await records.allSandboxes()) if (vault === name) yield `the sandbox ${id}`;
  const projects = eachOf((page) => records.tenants.listProjects({ ...page, organisationId, only: null }));
  for await (const { id: projectId } of projects) {
    for await (const snapshot of eachOf((page) => records.listSnapshots({ ...page, projectId }))) {
      if (snapshot.vault === name) yield `the snapshot ${snapshot.name ?? snapshot.id}`;
    }
    for (const template of await records.templates.listTemplates(projectId)) {
      if (await hasBuildIn(records, template.id, name)) yield `a build of the template ${template.name}`;
    }
  }
}

async function hasBuildIn(records: Records, template: TemplateId, vault: VaultName): Promise<boolean> {
  for (const { snapshotId } of await records.templates.buildsOf(template)) {
    if (snapshotId !== null && (await records.findSnapshot(snapshotId))?.vault === vault) return true;
  }
  return false;
}

/** All pages, one item after the other. */
export async function* eachOf<T>(list: (page: PageRequest) => Promise<Page<T>>): AsyncGenerator<T, void> {
  let cursor: string | null = null;
  do {
    const { items, next }: Page<T> = await list({ limit: PAGE, ...(cursor === null ? {} : { cursor }) });
    yield* items;
    cursor = next;
  } while (cursor !== null);
}
