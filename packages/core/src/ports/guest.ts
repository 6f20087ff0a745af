/**
 * The guest port: what the host may ask of the agent in a running VM, over one life's channel. Adapters: gRPC over the
 * link, and testkit's fake. Everything that comes from it is hostile: lengths are bounded, text is never trusted.
 * Errors: `link_lost` when the channel breaks; `agent_lost` when the agent does not answer in time.
 */
import type { LifeId, ProcessId, SandboxId } from '../ids.ts';
import type { GuestFiles } from './guest-files.ts';

export interface Guest extends GuestFiles {
  hello(): Promise<{ readonly agentVersion: string; readonly frozen: boolean }>;
  /** Stops all user processes; throws `timed_out` (and they run on). */
  freeze(timeoutMs: number): Promise<void>;
  /** Sets identity, clock and entropy while frozen, and verifies each as read back; throws `restore_failed`. */
  assumeIdentity(identity: GuestIdentity): Promise<void>;
  thaw(): Promise<void>;

  /** Starts a command; its events end with `exited`. Throws `command_not_started`. Aborting the signal ends the stream, not the command. */
  exec(command: GuestCommand, signal?: AbortSignal): AsyncIterable<ProcessEvent>;
  /** Sends a signal to the command's whole process tree; for SIGKILL, returns when the tree is gone. */
  signalTree(processId: ProcessId, signal: number): Promise<void>;
  processes(): Promise<readonly GuestProcess[]>;

  /** Settles when the channel is gone, with the reason. Never rejects. */
  readonly closed: Promise<string>;
  close(): Promise<void>;
}

export interface GuestIdentity {
  readonly sandboxId: SandboxId;
  readonly lifeId: LifeId;
  readonly generation: number;
  readonly hostname: string;
  /** 32 hex digits. */
  readonly machineId: string;
  /** At least 32 random bytes. */
  readonly entropy: Uint8Array;
}

export interface GuestCommand {
  readonly processId: ProcessId;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Absolute; undefined: the user's home. */
  readonly cwd?: string;
  /** Name or uid in the guest; undefined: `user`. */
  readonly user?: string;
}

export type ProcessEvent =
  | { readonly kind: 'started'; readonly processId: ProcessId; readonly pid: number }
  | { readonly kind: 'output'; readonly stream: 'stdout' | 'stderr'; readonly data: Uint8Array }
  /** From wait(2), never made up. */
  | { readonly kind: 'exited'; readonly exit: ProcessExit };

export type ProcessExit = { readonly code: number } | { readonly signal: number };

export interface GuestProcess {
  readonly processId: ProcessId;
  readonly pid: number;
  readonly argv: readonly string[];
  readonly leaderAlive: boolean;
}
