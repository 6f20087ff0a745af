/**
 * The part of the records that holds what left sandboxes or was refused. It is only added to, and what is old goes. The same is
 * linked into the chain of its organisation in one go with it; what is here is there to be found by its sandbox.
 */
import type { EgressId, EgressPosition, EgressRecord, OrganisationId, SandboxId } from '@space/core';
import type { GatewayChange } from './chain-entries.ts';
import type { Page, PageRequest } from './records.ts';

export interface RecordedEgress extends Omit<EgressRecord, 'at'> {
  readonly id: EgressId;
  readonly at: Date;
}

export interface TakenEgress {
  readonly records: readonly (RecordedEgress & { readonly organisationId: OrganisationId })[];
  /** Of the gateway, behind these. */
  readonly position: EgressPosition;
  /** When it is another one than before. */
  readonly changes: readonly GatewayChange[];
  /** When they are linked. */
  readonly linkedAt: Date;
}

export interface RecordsOfEgress {
  /** Up to where it was taken from a gateway; null: nothing ever was. */
  position(): Promise<EgressPosition | null>;
  /** All or nothing, and nothing when `behind` is not the position any more: somebody else has taken them. */
  add(taken: TakenEgress, behind: EgressPosition | null): Promise<void>;
  /** Newest first. */
  list(page: PageRequest & { readonly sandboxId: SandboxId }): Promise<Page<RecordedEgress>>;
  /** Keeps so many of a sandbox, the newest. */
  trim(sandboxId: SandboxId, kept: number): Promise<void>;
  dropBefore(at: Date): Promise<void>;
}
