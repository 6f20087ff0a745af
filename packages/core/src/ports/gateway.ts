/**
 * The gateway port, as control sees it: what each sandbox may reach, and what was seen of what it did. A gateway starts with
 * no rules, and no rules mean no traffic; `instance` tells when it is another one and has to be told again.
 */

import type { ShownRequest } from '../approvals/shown-request.ts';
import type { NetworkConstraints, NetworkPolicy } from '../egress/network-policy.ts';
import type { ApprovalId, LifeId, OrganisationId, SandboxId } from '../ids.ts';
import type { BoundSecret } from '../secrets/secret-binding.ts';

export interface GatewayPort {
  health(): Promise<GatewayHealth>;
  /** Replaces the rules of one sandbox. Open connections that they do not allow are cut before it answers. */
  setRules(rules: SandboxRules): Promise<void>;
  /** From then on nothing leaves the sandbox, and what is open is cut. */
  dropRules(sandboxId: SandboxId): Promise<void>;
  /** The certificate of the organisation's authority, made on first use. Its key never leaves the gateway. */
  trust(organisationId: OrganisationId): Promise<{ readonly certificatePem: string }>;
  /** The public key, base64, that values of secrets are sealed with; see `sealing.ts` of the gateway. */
  sealingKey(): Promise<{ readonly publicKey: string }>;
  /** Keeps a value that was sealed for this secret, in the place of an earlier one. Throws `bad_request` when it cannot be opened. */
  putSecret(secret: SecretName, sealed: string): Promise<void>;
  dropSecret(secret: SecretName): Promise<void>;
  /** What was seen behind an earlier answer of this stream, which is forgotten: whoever asks for more has kept it. */
  takeRecords(behind: EgressPosition | null): Promise<EgressRecords>;
  /**
   * Requests that are held, in order: those behind an earlier answer of this gateway, or all. When there is none it waits for
   * one, some seconds. Those that wait stay until they are answered, or until nobody waits for them any more.
   */
  takeAsks(behind: EgressPosition | null, signal: AbortSignal): Promise<HeldAsks>;
  answerAsk(answer: AskAnswer): Promise<AskFate>;
  /** What notices to that address are signed by. */
  noticeSecret(organisationId: OrganisationId, url: string): Promise<string>;
  /** Throws `egress_refused` when it may not be sent there, `egress_failed` when nobody takes it. */
  sendNotice(notice: Notice): Promise<void>;
}

export interface GatewayHealth {
  /** New with each start of the gateway. */
  readonly instance: string;
  /** How many sandboxes it has rules of. */
  readonly rules: number;
  /** Whether it resolves names itself, and dials the address that it judged; false: a proxy does, and nobody knows where to. */
  readonly pinsAddresses: boolean;
}

export interface SandboxRules {
  readonly sandboxId: SandboxId;
  readonly organisationId: OrganisationId;
  readonly policy: NetworkPolicy;
  readonly constraints: NetworkConstraints;
  /** What it may use of secrets: names and places, and no value. */
  readonly secrets: readonly BoundSecret[];
}

/** A secret of an organisation. */
export interface SecretName {
  readonly organisationId: OrganisationId;
  readonly name: string;
}

/** Of one gateway, or of the stream of records that gateways on one folder share; to another it says nothing. */
export interface EgressPosition {
  readonly instance: string;
  readonly next: number;
}

/** To an address that an organisation has named. */
export interface Notice {
  readonly organisationId: OrganisationId;
  readonly url: string;
  /** The same one each time that it is sent. */
  readonly id: string;
  /** JSON. */
  readonly body: string;
  /** Hosts of the organisation that may have a private address. */
  readonly privateHosts: readonly string[];
}

export interface HeldAsks extends EgressPosition {
  readonly asks: readonly HeldAsk[];
}

/** A request that does not leave before control says so. What it is, is told as it may be shown. */
export interface HeldAsk {
  /** A name that the gateway has for it; with its instance, no other one has it. */
  readonly id: string;
  readonly sandboxId: SandboxId;
  readonly lifeId: LifeId;
  /** That asks for it. */
  readonly rule: string;
  /** Of the whole request, in hex. */
  readonly digest: string;
  /** The approval that the program says it waits for, as it sent it. */
  readonly ticket: string | null;
  readonly request: ShownRequest;
  /** ISO 8601: until then it is held; then the program is told that it is to ask again. */
  readonly heldUntil: string;
}

export type AskAnswer = {
  readonly instance: string;
  readonly id: string;
} & (
  | { readonly kind: 'let_go'; readonly approvalId: ApprovalId }
  /** It is held on; when nobody waits any longer the program is told this. */
  | { readonly kind: 'wait'; readonly approvalId: ApprovalId; readonly expiresAt: string }
  | { readonly kind: 'refuse'; readonly approvalId: ApprovalId | null; readonly reason: string }
);

/** `taken`: the answer holds. `gone`: nobody waited for it any more, and nothing was sent. `unknown`: the gateway does not know it. */
export type AskFate = 'taken' | 'gone' | 'unknown';

export interface EgressRecords extends EgressPosition {
  readonly records: readonly EgressRecord[];
}

/** `held`: a reviewer has to approve it first, and the program was told to ask again. `cut`: by rules that were changed, or with its life. `failed`: the other side did not do its part. */
export const EGRESS_OUTCOMES = ['allowed', 'refused', 'held', 'failed', 'cut'] as const;
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
  /** The secret that was placed in it, by name. Null: none was. */
  readonly secret: string | null;
  /** By which a reviewer let it through, or which it waits for. Null: nobody was asked. */
  readonly approval: ApprovalId | null;
  /** Of the answer. */
  readonly status: number | null;
  readonly sentBytes: number;
  readonly receivedBytes: number;
  readonly durationMs: number;
  /** How many of the sandbox nobody took in time, right before this one. */
  readonly lostBefore: number;
}
