/** What control stands on. All of it is given: no module here makes its own time, chance or connection. */
import type { Chance, Clock, KmsDirectory, NodePort, Tracer } from '@space/core';
import type { Records } from './records.ts';

/** The four methods of pino that are used here. */
export interface Logger {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

export interface ControlPorts {
  readonly node: NodePort;
  readonly records: Records;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly logger: Logger;
  /** Left out: there is no KMS, and every vault is plain. */
  readonly kms?: KmsDirectory;
  /** Left out: nobody asked for traces. */
  readonly tracer?: Tracer;
}
