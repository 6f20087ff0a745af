/**
 * The gateway port, as control sees it: what each sandbox may reach, and what was seen of what it did. A gateway starts with
 * no rules, and no rules mean no traffic; `instance` tells when it is another one and has to be told again.
 */
import type { NetworkConstraints, NetworkPolicy } from '../egress/network-policy.ts';
import type { LifeId, OrganisationId, SandboxId } from '../ids.ts';

export interface GatewayPort {
  health(): Promise<GatewayHealth>;
  /** Replaces the rules of one sandbox. Open connections that they do not allow are cut before it answers. */
  setRules(rules: SandboxRules): Promise<void>;
  /** From then on nothing leaves the sandbox, and what is open is cut. */
  dropRules(sandboxId: SandboxId): Promise<void>;
  /** The certificate of the organisation's authority, made on first use. Its key never leaves the gateway. */
  trust(organisationId: OrganisationId): Promise<{ readonly certificatePem: string }>;
  /** What was seen behind an earlier answer of this gateway, which is forgotten: whoever asks for more has kept it. */
  takeRecords(behind: EgressPosition | null): Promise<EgressRecords>;
}

export interface GatewayHealth {
  /** New with each start of the gateway. */
  readonly instance: string;
  /** How many sandboxes it has rules of. */
  readonly rules: number;
}

export interface SandboxRules {
  readonly sandboxId: SandboxId;
  readonly organisationId: OrganisationId;
  readonly policy: NetworkPolicy;
  readonly constraints: NetworkConstraints;
}

/** Of one gateway; to another it says nothing. */
export interface EgressPosition {
  readonly instance: string;
  readonly next: number;
}

export interface EgressRecords extends EgressPosition {
  readonly records: readonly EgressRecord[];
}

/** `cut`: by rules that were changed, or with its life. `failed`: the other side did not do its part. */
export const EGRESS_OUTCOMES = ['allowed', 'refused', 'failed', 'cut'] as const;
export type EgressOutcome = (typeof EGRESS_OUTCOMES)[number];

/** One request, or one connection of which nothing could be read. No query, header or body is in it. */
export interface EgressRecord {
  readonly sandboxId: SandboxId;
  readonly lifeId: LifeId;
  /** When it began, ISO 8601. */
  readonly at: string;
  readonly protocol: 'http' | 'tls' | 'tcp';
  readonly host: string;
  readonly port: number;
  readonly method: string | null;
  readonly path: string | null;
  /** What it asked for, where a rule says what its host speaks. */
  readonly calls: string | null;
  /** Null: it failed before one was found. */
  readonly rule: string | null;
  readonly outcome: EgressOutcome;
  /** Of the answer. */
  readonly status: number | null;
  readonly sentBytes: number;
  readonly receivedBytes: number;
  readonly durationMs: number;
  /** How many of the sandbox nobody took in time, right before this one. */
  readonly lostBefore: number;
}
