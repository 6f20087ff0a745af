/** Calls and their answers in PostgreSQL. */
import type { CallKey, CallRecords, RecordedCall, Settles } from '@space/control';
import type { ApiKeyId } from '@space/core';
import { type Kysely, type Selectable, sql } from 'kysely';
import { translated } from './errors.ts';
import type { Tables } from './schema.ts';
import { waitForNoDisk } from './settles.ts';

export class PostgresCalls implements CallRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  claim(call: RecordedCall, settles: Settles): Promise<RecordedCall | null> {
    return translated(async () => {
      for (;;) {
        const { apiKeyId: api_key_id, idempotencyKey: idempotency_key, requestId: request_id, ...rest } = call;
        const insert = this.#db.insertInto('calls').values({ ...rest, api_key_id, idempotency_key, request_id });
        const claimed = await insert
          .onConflict((conflict) => conflict.columns(['api_key_id', 'idempotency_key']).doNothing())
          .returning(settles === 'next' ? waitForNoDisk : 'at')
          .executeTakeFirst();
        if (claimed !== undefined) return null;
        const present = await this.#find(call);
        // Let go between the two looks: it can be claimed now.
        if (present !== undefined) return callOf(present);
      }
    });
  }

  takeOver(call: RecordedCall, by: Pick<RecordedCall, 'requestId' | 'owner'>): Promise<boolean> {
    return translated(async () => {
      const update = this.#db.updateTable('calls').set({ request_id: by.requestId, owner: by.owner });
      const taken = await update
        .where('api_key_id', '=', call.apiKeyId)
        .where('idempotency_key', '=', call.idempotencyKey)
        .where('request_id', '=', call.requestId)
        .where('answer', 'is', null)
        .returning('at')
        .executeTakeFirst();
      return taken !== undefined;
    });
  }

  keepAnswer(call: RecordedCall, answer: string, settles: Settles): Promise<void> {
    return translated(async () => {
      await this.#db
        .updateTable('calls')
        .set({ answer })
        .where('api_key_id', '=', call.apiKeyId)
        .where('idempotency_key', '=', call.idempotencyKey)
        .where('request_id', '=', call.requestId)
        .where('answer', 'is', null)
        .$if(settles === 'next', (update) => update.returning(waitForNoDisk))
        .execute();
    });
  }

  release(call: RecordedCall): Promise<void> {
    return translated(async () => {
      await this.#db
        .deleteFrom('calls')
        .where('api_key_id', '=', call.apiKeyId)
        .where('idempotency_key', '=', call.idempotencyKey)
        .where('request_id', '=', call.requestId)
        .execute();
    });
  }

  dropBefore(time: Date): Promise<void> {
    return translated(async () => {
      await this.#db.deleteFrom('calls').where('at', '<', time).execute();
    });
  }

  dropSurplus(keepPerCaller: number): Promise<void> {
    return translated(async () => {
      await sql`
        delete from calls using (
          select api_key_id, idempotency_key, row_number() over (partition by api_key_id order by at desc) as place
          from calls
          where api_key_id in (select api_key_id from calls group by api_key_id having count(*) > ${keepPerCaller})
        ) as placed
        where placed.place > ${keepPerCaller}
          and calls.api_key_id = placed.api_key_id and calls.idempotency_key = placed.idempotency_key
      `.execute(this.#db);
    });
  }

  #find({ apiKeyId, idempotencyKey }: CallKey) {
    const all = this.#db.selectFrom('calls').selectAll().where('api_key_id', '=', apiKeyId);
    return all.where('idempotency_key', '=', idempotencyKey).executeTakeFirst();
  }
}

function callOf(row: Selectable<Tables['calls']>): RecordedCall {
  const { api_key_id, idempotency_key: idempotencyKey, request_id: requestId, ...rest } = row;
  return { ...rest, apiKeyId: api_key_id as ApiKeyId, idempotencyKey, requestId };
}
