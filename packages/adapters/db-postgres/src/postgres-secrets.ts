/** Names of secrets and their bindings, in PostgreSQL. */
import type { RecordedBinding, RecordedSecret, SecretRecords } from '@space/control';
import {
  AppError,
  MAX_BINDINGS,
  MAX_SECRETS,
  type NamedSecret,
  type OrganisationId,
  type SecretBinding,
} from '@space/core';
import { type Kysely, type Selectable, sql, type Transaction } from 'kysely';
import { translated } from './errors.ts';
import type { Tables } from './schema.ts';

export class PostgresSecrets implements SecretRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  list(organisationId: OrganisationId): Promise<readonly RecordedSecret[]> {
    return translated(async () => {
      const own = this.#db.selectFrom('secrets').selectAll().where('organisation_id', '=', organisationId);
      return (await own.orderBy('name').execute()).map(secretOf);
    });
  }

  put(organisationId: OrganisationId, { name, source }: Pick<NamedSecret, 'name' | 'source'>, at: Date) {
    return this.#change(organisationId, async (tx) => {
      const row = { source: JSON.stringify(source), updated_at: at };
      const insert = tx
        .insertInto('secrets')
        .values({ organisation_id: organisationId, name, version: 1, created_at: at, ...row })
        .onConflict((conflict) =>
          conflict.columns(['organisation_id', 'name']).doUpdateSet({ ...row, version: sql`secrets.version + 1` }),
        );
      const put = await insert.returningAll().executeTakeFirstOrThrow();
      await checkCount(tx, 'secrets', organisationId, MAX_SECRETS);
      return secretOf(put);
    });
  }

  remove(organisationId: OrganisationId, name: string): Promise<boolean> {
    return translated(async () => {
      const gone = this.#db
        .deleteFrom('secrets')
        .where('organisation_id', '=', organisationId)
        .where('name', '=', name);
      return (await gone.executeTakeFirst()).numDeletedRows > 0n;
    });
  }

  bindings(organisationId: OrganisationId): Promise<readonly RecordedBinding[]> {
    return translated(async () => {
      const own = this.#db.selectFrom('secret_bindings').selectAll().where('organisation_id', '=', organisationId);
      return (await own.orderBy('name').execute()).map(bindingOf);
    });
  }

  putBinding(organisationId: OrganisationId, { name, secret, ...binding }: SecretBinding, at: Date) {
    return this.#change(organisationId, async (tx) => {
      const known = tx.selectFrom('secrets').select('name').where('organisation_id', '=', organisationId);
      if ((await known.where('name', '=', secret).forShare().executeTakeFirst()) === undefined) return null;
      const row = { secret, binding: JSON.stringify(binding), updated_at: at };
      const insert = tx
        .insertInto('secret_bindings')
        .values({ organisation_id: organisationId, name, created_at: at, ...row })
        .onConflict((conflict) => conflict.columns(['organisation_id', 'name']).doUpdateSet(row));
      const put = await insert.returningAll().executeTakeFirstOrThrow();
      await checkCount(tx, 'secret_bindings', organisationId, MAX_BINDINGS);
      return bindingOf(put);
    });
  }

  removeBinding(organisationId: OrganisationId, name: string): Promise<boolean> {
    return translated(async () => {
      const own = this.#db.deleteFrom('secret_bindings').where('organisation_id', '=', organisationId);
      return (await own.where('name', '=', name).executeTakeFirst()).numDeletedRows > 0n;
    });
  }

  /** Of one organisation, one change at a time: what is counted stays so. */
  #change<T>(organisationId: OrganisationId, work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> {
    return translated(() =>
      this.#db.transaction().execute(async (tx) => {
        await tx.selectFrom('organisations').select('id').where('id', '=', organisationId).forUpdate().execute();
        return work(tx);
      }),
    );
  }
}

async function checkCount(
  tx: Transaction<Tables>,
  table: 'secrets' | 'secret_bindings',
  organisationId: OrganisationId,
  max: number,
): Promise<void> {
  const counted = tx.selectFrom(table).select(({ fn }) => fn.countAll<string>().as('count'));
  const { count } = await counted.where('organisation_id', '=', organisationId).executeTakeFirstOrThrow();
  if (Number(count) <= max) return;
  throw new AppError('limit_reached', { detail: `An organisation may have ${max} of these.`, facts: { max } });
}

function secretOf(row: Selectable<Tables['secrets']>): RecordedSecret {
  const { name, source, version, created_at: createdAt, updated_at: updatedAt } = row;
  return { name, source, version, createdAt, updatedAt };
}

function bindingOf(row: Selectable<Tables['secret_bindings']>): RecordedBinding {
  const { name, secret, binding, created_at: createdAt, updated_at: updatedAt } = row;
  return { ...binding, name, secret, createdAt, updatedAt };
}
