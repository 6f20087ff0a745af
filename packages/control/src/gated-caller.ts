/** A caller behind the gate. */
import type { Caller } from '@space/contract';
import type { Asker } from './audit-records.ts';

export interface GatedCaller extends Caller {
  /** What the operations that it begins are recorded with. */
  readonly asker: Asker;
  /** The same for each request that carries out the same call, one after another; undefined: the call has no key. */
  readonly callSeed?: string | undefined;
}
