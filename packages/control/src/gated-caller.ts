/** A caller behind the gate. */
import type { Caller } from '@space/contract';
import type { Asker } from './audit-records.ts';

export interface GatedCaller extends Caller {
  /** What the operations that it begins are recorded with. */
  readonly asker: Asker;
}
