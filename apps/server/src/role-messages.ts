/** What the supervisor and the processes of the platform say to each other, over the channel of their descriptors. */

import type { Tls } from '@space/http';
import type { Config } from './config.ts';
import type { ControlConfig } from './open-control.ts';
import type { NodeConfig } from './open-node.ts';
import type { PausedAll } from './pause-all.ts';

/** What control inherits beside the three descriptors of every process, the channel (3) and the lock (4). */
export const LISTENER_FD = 5;

export type RoleConfig = NodeConfig &
  ControlConfig &
  Pick<Config, 'logLevel' | 'newKey' | 'listen' | 'traces' | 'gateway'>;

export type ToRole =
  /** `first`: the start of the whole platform, which fails as one; else the process takes the place of one that died. */
  | { readonly kind: 'begin'; readonly config: RoleConfig; readonly first: boolean }
  /** To control: what it proves its names with from now on. */
  | { readonly kind: 'tls'; readonly tls: Tls }
  /** To control, `pause`: first pause every sandbox. */
  | { readonly kind: 'stop'; readonly pause: boolean };

export type FromRole =
  | { readonly kind: 'step'; readonly text: string }
  /** From the node: the builds of the VMM that its snapshots and microVMs need, by their digests. */
  | { readonly kind: 'needed builds'; readonly digests: readonly string[] }
  | { readonly kind: 'ready'; readonly welcome: Welcome | null }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'paused'; readonly result: PausedAll };

/** What control has to tell the person who started the platform. */
export interface Welcome {
  readonly url: string;
  readonly emulated: boolean;
  readonly firstRun: boolean;
  /** Made at this start. */
  readonly apiKey: string | null;
}

/** One kind of process of the platform. */
export interface Role {
  /** Done as root, before anything is read from anybody. */
  readonly prepare?: (traced: boolean) => Promise<void>;
  /** Until it is ready; `stopped` aborts when it is to end before. */
  begin(
    begin: Extract<ToRole, { kind: 'begin' }>,
    say: (message: FromRole) => void,
    stopped: AbortSignal,
  ): Promise<void>;
  replaceTls?(tls: Tls): void;
  /** Also after a beginning that failed. */
  end(stop: Extract<ToRole, { kind: 'stop' }>, say: (message: FromRole) => void): Promise<void>;
}
