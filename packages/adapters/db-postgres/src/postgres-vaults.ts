/** Vaults in PostgreSQL. */
import type { RecordedVault, VaultChanges, VaultRecords } from '@space/control';
import { type ApiKeyId, AppError, type OrganisationId, type VaultName } from '@space/core';
import { type Kysely, type Selectable, sql, type Transaction } from 'kysely';
import { translated } from './errors.ts';
import type { Tables } from './schema.ts';

export class PostgresVaults implements VaultRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  add(vault: Omit<RecordedVault, 'version' | 'updatedAt'>): Promise<RecordedVault> {
    const { name, organisationId, createdAt } = vault;
    return this.#alone(organisationId, async (tx) => {
      if (vault.isDefault) await dropDefault(tx, organisationId, createdAt);
      const row = { name, organisation_id: organisationId, version: 1, created_at: createdAt, updated_at: createdAt };
      const insert = tx.insertInto('vaults').values({ ...row, ...columnsOf(vault) });
      const added = await insert
        .onConflict((conflict) => conflict.column('name').doNothing())
        .returningAll()
        .execute();
      const [first] = added;
      if (first === undefined) throw new AppError('name_taken', `There is, or was, a vault "${name}".`);
      return vaultOf(first);
    });
  }

  find(name: VaultName): Promise<RecordedVault | null> {
    return translated(async () => {
      const row = await this.#db.selectFrom('vaults').selectAll().where('name', '=', name).executeTakeFirst();
      return row === undefined ? null : vaultOf(row);
    });
  }

  list(organisationId: OrganisationId): Promise<readonly RecordedVault[]> {
    return translated(async () => {
      const own = this.#db.selectFrom('vaults').selectAll().where('organisation_id', '=', organisationId);
      return (await own.orderBy('name').execute()).map(vaultOf);
    });
  }

  all(): Promise<readonly RecordedVault[]> {
    return translated(async () => {
      const left = this.#db.selectFrom('vaults').selectAll().where('state', '<>', 'removed');
      return (await left.orderBy('name').execute()).map(vaultOf);
    });
  }

  defaultOf(organisationId: OrganisationId): Promise<RecordedVault | null> {
    return translated(async () => {
      const own = this.#db.selectFrom('vaults').selectAll().where('organisation_id', '=', organisationId);
      const row = await own.where('is_default', '=', true).executeTakeFirst();
      return row === undefined ? null : vaultOf(row);
    });
  }

  change(seen: RecordedVault, changes: VaultChanges, at: Date): Promise<RecordedVault | null> {
    return this.#alone(seen.organisationId, async (tx) => {
      const own = tx.selectFrom('vaults').select('version').where('name', '=', seen.name).forUpdate();
      if ((await own.executeTakeFirst())?.version !== seen.version) return null;
      if (changes.isDefault === true && !seen.isDefault) await dropDefault(tx, seen.organisationId, at);
      const update = tx
        .updateTable('vaults')
        .set({ ...columnsOf({ ...seen, ...changes }), version: seen.version + 1, updated_at: at })
        .where('name', '=', seen.name);
      return vaultOf(await update.returningAll().executeTakeFirstOrThrow());
    });
  }

  /** Of one organisation, one change at a time: which is the default is one of them. */
  #alone<T>(organisationId: OrganisationId, work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> {
    return translated(() =>
      this.#db.transaction().execute(async (tx) => {
        await tx.selectFrom('organisations').select('id').where('id', '=', organisationId).forUpdate().execute();
        return work(tx);
      }),
    );
  }
}

async function dropDefault(tx: Transaction<Tables>, organisationId: OrganisationId, at: Date): Promise<void> {
  await tx
    .updateTable('vaults')
    .set({ is_default: false, version: sql`version + 1`, updated_at: at })
    .where('organisation_id', '=', organisationId)
    .where('is_default', '=', true)
    .execute();
}

function columnsOf(vault: Required<VaultChanges>) {
  const { isDefault, state, sizeBytes, keyring, headerIsBehind, revocation, onRevoke, outageMs } = vault;
  return {
    is_default: isDefault,
    state,
    size_bytes: sizeBytes,
    kms: keyring?.reference.kms ?? null,
    kms_key: keyring?.reference.key ?? null,
    wrapped: keyring === null ? null : Buffer.from(keyring.wrapped),
    header_is_behind: headerIsBehind,
    revocation: revocation === null ? null : JSON.stringify(revocation),
    on_revoke: onRevoke,
    outage_ms: outageMs,
  };
}

function vaultOf(row: Selectable<Tables['vaults']>): RecordedVault {
  const { kms, kms_key: key, wrapped, revocation } = row;
  const isWrapped = kms !== null && key !== null && wrapped !== null;
  return {
    name: row.name as VaultName,
    organisationId: row.organisation_id as OrganisationId,
    isDefault: row.is_default,
    state: row.state,
    sizeBytes: Number(row.size_bytes),
    keyring: isWrapped ? { reference: { kms, key }, wrapped: Uint8Array.from(wrapped) } : null,
    headerIsBehind: row.header_is_behind,
    revocation:
      revocation === null ? null : { ...revocation, by: revocation.by as ApiKeyId | null, at: new Date(revocation.at) },
    onRevoke: row.on_revoke,
    outageMs: row.outage_ms === null ? null : Number(row.outage_ms),
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
