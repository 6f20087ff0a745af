/** The chains in PostgreSQL. Triggers refuse every change but a link behind the head, and the end of what lies before an anchor. */
import {
  beginOf,
  type ChainLink,
  type ChainName,
  type ChainRecords,
  type ChainRequest,
  type ChainState,
  entryOfCall,
  linkBehind,
} from '@space/control';
import type { OrganisationId } from '@space/core';
import { type Kysely, sql, type Transaction } from 'kysely';
import { translated } from './errors.ts';
import { endedAudit, recordedAuditOf } from './postgres-audit.ts';
import type { Tables } from './schema.ts';

export class PostgresChain implements ChainRecords {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  linkCalls(limit: number, at: Date): Promise<number> {
    return this.#transaction(async (tx) => {
      const rows = await endedAudit(tx).orderBy('audit.at').orderBy('audit.id').limit(limit).execute();
      if (rows.length === 0) return 0;
      const calls = rows.map(recordedAuditOf);
      const entries = calls.map((one) => ({ organisationId: one.organisationId, entry: entryOfCall(one) }));
      const numbers = await appendLinks(tx, 'calls', entries, at);
      await sql`
        update audit set link = linked.number
        from unnest(${calls.map(({ auditId }) => auditId)}::text[], ${numbers}::bigint[]) as linked (id, number)
        where audit.id = linked.id`.execute(tx);
      return rows.length;
    });
  }

  unlinkedCalls(organisationId: OrganisationId): Promise<number> {
    return translated(async () => {
      const { count } = await this.#db
        .selectFrom('audit')
        .select((eb) => eb.fn.countAll<string>().as('count'))
        .where('organisation_id', '=', organisationId)
        .where('link', 'is', null)
        .executeTakeFirstOrThrow();
      return Number(count);
    });
  }

  states(organisationId: OrganisationId): Promise<readonly ChainState[]> {
    return translated(async () => {
      const rows = await this.#db
        .selectFrom('audit_chains')
        .selectAll()
        .where('organisation_id', '=', organisationId)
        .orderBy('chain')
        .execute();
      return rows.map((row) => ({
        chain: row.chain,
        anchor: { number: Number(row.anchor_number), digest: row.anchor_digest },
        head: { number: Number(row.head_number), digest: row.head_digest },
      }));
    });
  }

  links({ organisationId, chain, after, limit }: ChainRequest & { after: number; limit: number }) {
    return translated(async () => {
      const rows = await this.#db
        .selectFrom('audit_links')
        .select(['number', 'at', 'entry', 'digest'])
        .where('organisation_id', '=', organisationId)
        .where('chain', '=', chain)
        .where('number', '>', `${after}`)
        .orderBy('number')
        .limit(limit)
        .execute();
      return rows.map((row): ChainLink => ({ ...row, number: Number(row.number) }));
    });
  }

  before({ organisationId, chain, since }: ChainRequest & { since: Date }): Promise<number | null> {
    return translated(async () => {
      const { first } = await this.#db
        .selectFrom('audit_links')
        .select((eb) => eb.fn.min('number').as('first'))
        .where('organisation_id', '=', organisationId)
        .where('chain', '=', chain)
        .where('at', '>=', since)
        .executeTakeFirstOrThrow();
      return first === null ? null : Number(first) - 1;
    });
  }

  async drop(chain: ChainName, old: { before: Date; kept: number; limit: number }): Promise<void> {
    const chains = await translated(() =>
      this.#db.selectFrom('audit_chains').select('organisation_id').where('chain', '=', chain).execute(),
    );
    for (const { organisation_id: id } of chains) {
      await this.#transaction((tx) => dropOldest(tx, { organisationId: id as OrganisationId, chain }, old));
    }
  }

  #transaction<T>(work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> {
    return translated(() => this.#db.transaction().execute(work));
  }
}

/** In the order in which they are given; answers their numbers. Holds the chains that it adds to until the transaction ends. */
export async function appendLinks(
  tx: Transaction<Tables>,
  chain: ChainName,
  entries: readonly { readonly organisationId: OrganisationId; readonly entry: string }[],
  at: Date,
): Promise<readonly number[]> {
  const numbers: number[] = [];
  // Always in one order, so that no two transactions wait for each other.
  for (const organisationId of [...new Set(entries.map((one) => one.organisationId))].sort()) {
    const request = { organisationId, chain };
    let last = await holdHead(tx, request);
    const links: ChainLink[] = [];
    for (const [index, { entry, organisationId: whose }] of entries.entries()) {
      if (whose !== organisationId) continue;
      const link = linkBehind(last, { at, entry });
      numbers[index] = link.number;
      links.push(link);
      last = link;
    }
    await tx
      .insertInto('audit_links')
      .values(links.map((link) => ({ ...link, organisation_id: organisationId, chain })))
      .execute();
    await tx
      .updateTable('audit_chains')
      .set({ head_number: last.number, head_digest: last.digest })
      .where('organisation_id', '=', organisationId)
      .where('chain', '=', chain)
      .execute();
  }
  return numbers;
}

async function holdHead(tx: Transaction<Tables>, request: ChainRequest) {
  const { organisationId: organisation_id, chain } = request;
  const { number, digest } = beginOf(request);
  const begin = { anchor_number: number, anchor_digest: digest, head_number: number, head_digest: digest };
  await tx
    .insertInto('audit_chains')
    .values({ organisation_id, chain, ...begin })
    .onConflict((conflict) => conflict.columns(['organisation_id', 'chain']).doNothing())
    .execute();
  const row = await tx
    .selectFrom('audit_chains')
    .select(['head_number', 'head_digest'])
    .where('organisation_id', '=', organisation_id)
    .where('chain', '=', chain)
    .forUpdate()
    .executeTakeFirstOrThrow();
  return { number: Number(row.head_number), digest: row.head_digest };
}

async function dropOldest(
  tx: Transaction<Tables>,
  { organisationId, chain }: ChainRequest,
  { before, kept, limit }: { before: Date; kept: number; limit: number },
): Promise<void> {
  // Of links in order the first one that is not old ends what goes.
  const { rows } = await sql<{ number: string; digest: string }>`
    with held as (
      select anchor_number, head_number from audit_chains
      where organisation_id = ${organisationId} and chain = ${chain} for update
    ), oldest as (
      select number, at, digest from audit_links
      where organisation_id = ${organisationId} and chain = ${chain}
        and number > (select anchor_number from held)
      order by number limit ${limit}
    )
    select number, digest from oldest
    where number <= (select head_number from held) - ${kept}
      or number < coalesce((select min(number) from oldest where at >= ${before}), 9223372036854775807)
    order by number desc limit 1`.execute(tx);
  const [last] = rows;
  if (last === undefined) return;
  await tx
    .updateTable('audit_chains')
    .set({ anchor_number: last.number, anchor_digest: last.digest })
    .where('organisation_id', '=', organisationId)
    .where('chain', '=', chain)
    .execute();
  await tx
    .deleteFrom('audit_links')
    .where('organisation_id', '=', organisationId)
    .where('chain', '=', chain)
    .where('number', '<=', last.number)
    .execute();
  if (chain === 'calls') {
    await sql`delete from audit where organisation_id = ${organisationId} and link <= ${last.number}`.execute(tx);
  }
}
