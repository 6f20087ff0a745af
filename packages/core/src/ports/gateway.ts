/** The gateway port: the way out of sandboxes, by the name of the destination. What no rule allows is refused. */
import type { SandboxId } from '../ids.ts';

export interface GatewayPort {
  /** That it answers, and by what it decides. */
  health(): Promise<GatewayHealth>;
  /** A way out for one connection of a sandbox. Throws `egress_refused`: there are no rules yet that could allow it. */
  open(wanted: EgressConnection): Promise<void>;
}

export interface GatewayHealth {
  /** None: every connection is refused. */
  readonly rules: 'none';
}

export interface EgressConnection {
  readonly sandboxId: SandboxId;
  /** As the program in the sandbox named it. */
  readonly host: string;
  readonly port: number;
}
