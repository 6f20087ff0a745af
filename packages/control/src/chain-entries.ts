/** What goes into the chains: what the API shows, as JSON, so that an export can be checked by whoever has nothing else. */
import type { OrganisationId } from '@space/core';
import type { RecordedAudit } from './audit-records.ts';
import type { RecordedEgress } from './egress-records.ts';
import { viewAudit, viewEgress } from './views.ts';

export function entryOfCall(recorded: RecordedAudit): string {
  return JSON.stringify(viewAudit(recorded));
}

export function entryOfEgress(recorded: RecordedEgress): string {
  return JSON.stringify({ sandbox: recorded.sandboxId, id: recorded.id, ...viewEgress(recorded) });
}

/** A gateway holds what it has seen until it is taken, a second or less: what one that is gone had is lost with it. */
export interface GatewayChange {
  readonly organisationId: OrganisationId;
  readonly at: Date;
  readonly before: string;
  readonly now: string;
}

export function entryOfChange({ at, before, now }: GatewayChange): string {
  return JSON.stringify({ event: 'gateway_changed', at: at.toISOString(), before, now });
}
