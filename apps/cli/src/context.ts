/** What every verb is given. Streams, environment and signals come from outside, so that tests can hand in their own. */
import type { EventEmitter } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import type { CallOptions, ConnectionOptions } from '@space/sdk';
import type { Output } from './output.ts';

interface TerminalIn extends Readable {
  readonly isTTY?: boolean;
  setRawMode?(on: boolean): unknown;
}

export interface TerminalOut extends Writable {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

export interface Io {
  readonly stdin: TerminalIn;
  readonly stdout: TerminalOut;
  readonly stderr: TerminalOut;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Where signals to this process arrive. */
  readonly signals: Pick<EventEmitter, 'on' | 'off'>;
  /** Stops this process until it is continued. */
  readonly suspend: () => void;
}

export interface Context {
  readonly io: Io;
  readonly out: Output;
  /** For every call of the SDK. */
  readonly connection: ConnectionOptions & CallOptions;
}
