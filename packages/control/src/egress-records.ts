/** The part of the records that holds what left sandboxes or was refused. It is only added to, and what is old goes. */
import type { EgressId, EgressRecord, SandboxId } from '@space/core';
import type { Page, PageRequest } from './records.ts';

export interface RecordedEgress extends Omit<EgressRecord, 'at'> {
  readonly id: EgressId;
  readonly at: Date;
}

export interface RecordsOfEgress {
  add(records: readonly RecordedEgress[]): Promise<void>;
  /** Newest first. */
  list(page: PageRequest & { readonly sandboxId: SandboxId }): Promise<Page<RecordedEgress>>;
  /** Keeps so many of a sandbox, the newest. */
  trim(sandboxId: SandboxId, kept: number): Promise<void>;
  dropBefore(at: Date): Promise<void>;
}
