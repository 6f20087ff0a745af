/** Notices as approvals come and end, in their transactions. */
import type { RecordedApproval } from '@space/control';
import { sql, type Transaction } from 'kysely';
import type { Tables } from './schema.ts';

/** In the transaction that asks for it, where there is somebody to tell. */
export async function addNotice(tx: Transaction<Tables>, approval: RecordedApproval): Promise<void> {
  const { id, organisationId, requestedAt } = approval;
  await sql`
    insert into notices (approval_id, organisation_id, next_at)
    select ${id}, organisation_id, ${requestedAt} from webhooks where organisation_id = ${organisationId}`.execute(tx);
}

/** In the transaction in which they end to wait. */
export async function dropNotices(tx: Transaction<Tables>, ids: readonly string[]): Promise<void> {
  if (ids.length > 0)
    await tx
      .deleteFrom('notices')
      .where('approval_id', 'in', [...ids])
      .execute();
}
