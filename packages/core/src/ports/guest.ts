/**
 * The guest port: what the host may ask of the agent in a running VM, over one life's channel. Adapters: gRPC over the
 * link, and testkit's fake. Everything that comes from it is hostile: lengths are bounded, text is never trusted.
 * Errors: `link_lost` when the channel breaks; `agent_lost` when the agent does not answer in time.
 */
import type { LifeId, ProcessId, SandboxId } from '../ids.ts';
import type { GuestFiles } from './guest-files.ts';
import type { PortConnection } from './port-connection.ts';

export interface Guest extends GuestFiles {
  hello(): Promise<{ readonly agentVersion: string; readonly frozen: boolean }>;
  /** Stops all user processes; throws `timed_out` (and they run on). */
  freeze(timeoutMs: number): Promise<void>;
  /**
   * Sets identity, clock and entropy while frozen, and verifies each as read back; throws `restore_failed`. The file of the
   * machine id is the guest's own: where root has spoilt it past repair, the life goes on without one of its own, and that is told.
   */
  assumeIdentity(identity: GuestIdentity): Promise<{ readonly hasMachineId: boolean }>;
  thaw(): Promise<void>;

  /** Starts a command; its events end with `exited`. Throws `command_not_started`. Aborting the signal ends the stream, not the command. */
  exec(command: GuestCommand, signal?: AbortSignal): AsyncIterable<ProcessEvent>;
  /**
   * The events of a command from a position on, as `exec` gives them; also of one of the last that have ended. Throws
   * `not_found`, and `bad_request` for a position beyond what it has printed.
   */
  attach(at: OutputPosition, signal?: AbortSignal): AsyncIterable<ProcessEvent>;
  /**
   * Hands bytes to a command that takes input. Returns after a while also when it does not read, so the rest is to be sent
   * again; a repetition changes nothing. Throws `not_found`, `input_closed`, and `bad_request` for a gap.
   */
  writeInput(input: ProcessInput): Promise<{ readonly acceptedBytes: number }>;
  /** Throws `not_found`, and `input_closed` when there is no terminal. */
  resizeTerminal(processId: ProcessId, size: TerminalSize): Promise<void>;
  /** For SIGKILL to a tree, returns when the tree is gone. Throws `not_found`. */
  signalProcess(processId: ProcessId, signal: number, target: SignalTarget): Promise<void>;
  /** Those that are alive, or left something alive; with `ended`, those that can still be attached to as well. */
  processes(options?: { readonly ended?: boolean }): Promise<readonly GuestProcess[]>;

  /**
   * Connects to a port on the loopback of the guest, by IPv4 or, where nothing listens, IPv6. Throws `port_refused` when
   * nothing listens, and `port_busy` when there are too many. The signal resets the connection at any time.
   */
  openPort(port: number, signal?: AbortSignal): Promise<PortConnection>;

  /**
   * The connections that programs in the guest open to somewhere else, in their order, for as long as the channel holds. Who asks
   * again takes the place of who asked before; what is not opened is reset at the end. Throws `snapshot_unfit` for an agent that
   * knows of none.
   */
  outgoing(signal?: AbortSignal): AsyncIterable<OutgoingConnection>;

  /** Settles when the channel is gone, with the reason. Never rejects. */
  readonly closed: Promise<string>;
  close(): Promise<void>;
}

export interface OutgoingConnection {
  /** As the program named it: a name in lower case, or the literal of an address. */
  readonly host: string;
  readonly port: number;
  /** Takes it over, once; what is not opened waits. The signal resets it at any time. */
  open(signal?: AbortSignal): Promise<PortConnection>;
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
  /** Nobody has owned the machine before: the commands that have ended in it are forgotten. */
  readonly isFresh: boolean;
  /** Certificates (PEM) that programs are to trust beside those of the image. That they can be put there is not promised. */
  readonly trust?: string;
}

export interface GuestCommand {
  readonly processId: ProcessId;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Absolute; undefined: the user's home. */
  readonly cwd?: string;
  /** Name or uid in the guest; undefined: `user`. */
  readonly user?: string;
  /** Whether it takes input; otherwise that is /dev/null. */
  readonly stdin?: boolean;
  /** A terminal in place of the three streams: its output is stdout, and it takes input. */
  readonly pty?: TerminalSize & { readonly term?: string };
  /** SIGKILL for the whole tree when the command has run for so long. Kept by the guest, so counted while it runs. */
  readonly timeoutMs?: number;
  /** Kept with it for whoever lists it, at most `MAX_LABEL_BYTES`. An agent of an earlier version keeps none. */
  readonly label?: string;
}

export const MAX_LABEL_BYTES = 4096;

export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

export type OutputStream = 'stdout' | 'stderr';

export type ProcessEvent =
  | { readonly kind: 'started'; readonly processId: ProcessId; readonly pid: number }
  /** `offset` is the position of the first byte in its stream. */
  | { readonly kind: 'output'; readonly stream: OutputStream; readonly offset: number; readonly data: Uint8Array }
  /** Output that this reader did not get: nobody read it in time, or another reader was faster. */
  | { readonly kind: 'lost'; readonly stream: OutputStream; readonly offset: number; readonly sizeBytes: number }
  | ({ readonly kind: 'exited' } & ProcessEnd);

export type ProcessExit = { readonly code: number } | { readonly signal: number };

export interface ProcessEnd {
  /** From wait(2), never made up. */
  readonly exit: ProcessExit;
  /** Whether its time limit killed it; its whole tree is then gone. */
  readonly timedOut: boolean;
  /** Whether it or one of its children was killed for want of memory, by the guest's kernel or its agent. */
  readonly oom: boolean;
}

export interface OutputPosition {
  readonly processId: ProcessId;
  readonly stdoutOffset: number;
  readonly stderrOffset: number;
}

export interface ProcessInput {
  readonly processId: ProcessId;
  /** Position of the first byte in the command's input; undefined: after what it has taken. */
  readonly offset?: number;
  /** At most `MAX_INPUT_BYTES`. */
  readonly data: Uint8Array;
  /** The input ends after these bytes; a terminal is hung up. */
  readonly eof: boolean;
}

export const MAX_INPUT_BYTES = 64 * 1024;

export type SignalTarget = 'tree' | 'leader';

export interface GuestProcess {
  readonly processId: ProcessId;
  readonly pid: number;
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly pty: boolean;
  /** As it was given at the start; empty where none was. The guest can say anything. */
  readonly label: string;
  /** Milliseconds since 1970. */
  readonly startedMs: number;
  readonly leaderAlive: boolean;
  readonly liveProcesses: number;
  /** Once it has ended. */
  readonly end?: ProcessEnd;
  /** Printed, and taken, since its start. */
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly stdinBytes: number;
}
