/** Shares in PostgreSQL. */
import { eventOfShare, type RecordedShare, type ShareRecords } from '@space/control';
import { type ApiKeyId, AppError, type ProjectId, type SandboxId, type ShareId } from '@space/core';
import type { Kysely, Selectable } from 'kysely';
import { translated } from './errors.ts';
import { appendEvents } from './postgres-events.ts';
import { lockLiveSandbox } from './postgres-schedules.ts';
import type { Tables } from './schema.ts';

export class PostgresShares implements ShareRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  add(share: RecordedShare, max: number): Promise<void> {
    return translated(() =>
      this.#db.transaction().execute(async (tx) => {
        await lockLiveSandbox(tx, share.sandboxId);
        const own = tx.selectFrom('shares').select('id').where('sandbox_id', '=', share.sandboxId);
        if ((await own.where('expires_at', '>', share.createdAt).execute()).length >= max) {
          throw new AppError('limit_reached', { detail: `A sandbox may have ${max} shares.`, facts: { max } });
        }
        await tx.insertInto('shares').values(rowOf(share)).execute();
        await appendEvents(tx, [eventOfShare('share.created', share, share.createdAt)]);
      }),
    );
  }

  list(sandboxId: SandboxId, now: Date): Promise<readonly RecordedShare[]> {
    return translated(async () => {
      const own = this.#db.selectFrom('shares').selectAll().where('sandbox_id', '=', sandboxId);
      return (await own.where('expires_at', '>', now).orderBy('created_at').orderBy('id').execute()).map(shareOf);
    });
  }

  findByDigest(sha256: Uint8Array): Promise<RecordedShare | null> {
    return translated(async () => {
      const one = this.#db.selectFrom('shares').selectAll().where('sha256', '=', Buffer.from(sha256));
      const row = await one.executeTakeFirst();
      return row === undefined ? null : shareOf(row);
    });
  }

  remove(sandboxId: SandboxId, id: ShareId, at: Date): Promise<boolean> {
    return translated(() =>
      this.#db.transaction().execute(async (tx) => {
        const gone = tx.deleteFrom('shares').where('id', '=', id).where('sandbox_id', '=', sandboxId).returningAll();
        const row = await gone.executeTakeFirst();
        if (row === undefined) return false;
        await appendEvents(tx, [eventOfShare('share.revoked', shareOf(row), at)]);
        return true;
      }),
    );
  }

  endedAmong(ids: readonly ShareId[], now: Date): Promise<readonly ShareId[]> {
    if (ids.length === 0) return Promise.resolve([]);
    return translated(async () => {
      const known = this.#db
        .selectFrom('shares')
        .select('id')
        .where('id', 'in', [...ids]);
      const good = new Set<string>((await known.where('expires_at', '>', now).execute()).map(({ id }) => id));
      return ids.filter((id) => !good.has(id));
    });
  }

  dropExpired(now: Date): Promise<void> {
    return translated(async () => {
      await this.#db.deleteFrom('shares').where('expires_at', '<=', now).execute();
    });
  }
}

function shareOf(row: Selectable<Tables['shares']>): RecordedShare {
  return {
    id: row.id as ShareId,
    projectId: row.project_id as ProjectId,
    sandboxId: row.sandbox_id as SandboxId,
    port: row.port,
    name: row.name,
    sha256: row.sha256,
    createdBy: row.created_by as ApiKeyId,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  };
}

function rowOf({ id, projectId, sandboxId, port, name, sha256, createdBy, createdAt, expiresAt }: RecordedShare) {
  return {
    id,
    project_id: projectId,
    sandbox_id: sandboxId,
    port,
    name,
    sha256: Buffer.from(sha256),
    created_by: createdBy,
    created_at: createdAt,
    expires_at: expiresAt,
  };
}
