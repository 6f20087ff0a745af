/**
 * One connection of a sandbox on its way out: whose it is, where it goes, and what is judged and recorded of it. All of its
 * requests go to the one host that the program dialled.
 */
import type { Duplex } from 'node:stream';
import {
  type AddressClass,
  type AppError,
  type ApprovalId,
  asAppError,
  type BoundSecret,
  decideAddress,
  decideOpaque,
  decideRequest,
  decideTarget,
  describeSpoken,
  type EgressConnection,
  type EgressDecision,
  type EgressOutcome,
  type EgressRecord,
  type EgressRequest,
  type EgressRules,
  type EgressTarget,
  type ErrorCode,
  mustBeAsked,
  type OrganisationId,
  parseId,
} from '@space/core';
import type { Admitted } from './admission.ts';
import type { GuestStream } from './guest-stream.ts';
import type { HeldAskRoom } from './held-asks.ts';
import type { LookedInto } from './look-into.ts';
import type { OpenConnection } from './open-connections.ts';
import type { NewRecord } from './recorder.ts';
import { refused } from './refusal.ts';
import type { Secrets } from './secrets/secrets.ts';

/** The rules that hold for a sandbox now. */
export interface LoadedRules extends EgressRules {
  readonly organisationId: OrganisationId;
  readonly secrets: readonly BoundSecret[];
}

export interface PassageOptions {
  readonly connection: EgressConnection;
  readonly target: EgressTarget;
  readonly guest: GuestStream;
  /** Null: none are loaded. */
  readonly rules: () => LoadedRules | null;
  readonly record: (record: NewRecord) => void;
  readonly secrets: Secrets;
  readonly lookedInto: LookedInto;
  /** Where requests wait for a reviewer. */
  readonly asks: HeldAskRoom;
}

/** What is written down of a request. */
type Recorded = Pick<EgressRequest, 'method' | 'path' | 'spoken'>;

type LetThrough = Pick<Admitted, 'request' | 'rule' | 'approvalId' | 'secret' | 'isGranted'>;

interface Begun {
  readonly rule: string;
  readonly request?: EgressRequest;
  readonly secret?: string | null;
  readonly approval?: ApprovalId | null;
  readonly protocol?: EgressRecord['protocol'];
}

/** What is under way on it. */
interface UnderWay {
  readonly judge: (rules: LoadedRules) => EgressDecision;
  readonly cut: () => void;
  /** By rules that do not let it be. */
  isCut: boolean;
}

export interface Account {
  sentBytes: number;
  receivedBytes: number;
  /** Ends it, and writes it down; only the first end counts. */
  end(outcome: EgressOutcome, status?: number): void;
}

const NO_RULES = {
  allowed: false,
  rule: 'no rules are loaded',
  reason: 'The gateway has no rules for this sandbox yet; nothing leaves without.',
  ask: 'owner',
} as const satisfies EgressDecision;
const OUTCOME_OF: Partial<Record<ErrorCode, EgressOutcome>> = {
  egress_refused: 'refused',
  approval_denied: 'refused',
  approval_pending: 'held',
};
const NOT_GRANTED = {
  allowed: false,
  rule: 'secrets are placed where their binding says',
  reason: 'The secret that the request was given is not granted any more.',
  ask: 'admin',
} as const satisfies EgressDecision;
const MAX_RECORDED_PATH = 500;
const MAX_RECORDED_METHOD = 32;

export class Passage implements OpenConnection {
  readonly connection: EgressConnection;
  readonly target: EgressTarget;
  readonly guest: GuestStream;
  /** Aborts when it is cut. */
  readonly signal: AbortSignal;
  /** Why nothing that is asked on it is let through, whatever it is. */
  failure: AppError | null = null;
  readonly #options: PassageOptions;
  readonly #cut = new AbortController();
  readonly #underWay = new Set<UnderWay>();
  /** Of the addresses that it was dialled at. */
  readonly #dialled = new Set<AddressClass>();

  constructor(options: PassageOptions) {
    this.#options = options;
    this.connection = options.connection;
    this.target = options.target;
    this.guest = options.guest;
    this.signal = this.#cut.signal;
  }

  /** Values, for requests that they are placed in. */
  get secrets(): Secrets {
    return this.#options.secrets;
  }

  get sandboxId() {
    return this.connection.sandboxId;
  }

  get organisationId() {
    return this.#options.rules()?.organisationId ?? null;
  }

  get lookedInto() {
    return this.#options.lookedInto;
  }

  get asks(): HeldAskRoom {
    return this.#options.asks;
  }

  get activeAtMs(): number {
    return this.guest.activeAtMs;
  }

  /** Throws `egress_refused` when none are loaded. */
  get rules(): LoadedRules {
    const rules = this.#options.rules();
    if (rules === null) throw refused(NO_RULES);
    return rules;
  }

  judgeTarget(): EgressDecision {
    return this.#judge((rules) => decideTarget(rules, this.target));
  }

  judgeOpaque(protocol: 'tls' | 'tcp'): EgressDecision {
    return this.#judge((rules) => decideOpaque(rules, this.target, protocol));
  }

  judgeRequest(request: EgressRequest): EgressDecision {
    return this.#judge((rules) => decideRequest(rules, request));
  }

  /** Of all that could be dialled, by the rules of now and whenever they change. Throws `egress_refused`. */
  judgeAddresses(classes: readonly AddressClass[]): void {
    for (const is of classes) {
      this.#dialled.add(is);
      const decision = this.#judge((rules) => decideAddress(rules, this.target, is));
      if (!decision.allowed) throw refused(decision);
    }
  }

  /** A request that is let through, until its account is ended. `cut` ends it when new rules do not let it be. */
  beginRequest(admitted: LetThrough, cut: () => void): Account {
    const { request, rule, approvalId, secret, isGranted } = admitted;
    const judge = (rules: LoadedRules): EgressDecision => {
      if (!isGranted(rules)) return NOT_GRANTED;
      const decision = decideRequest(rules, request);
      // It was asked for, and approved.
      return approvalId !== null && mustBeAsked(decision) ? { allowed: true, rule } : decision;
    };
    return this.#begin({ judge, cut, isCut: false }, { rule, request, secret, approval: approvalId });
  }

  beginOpaque(protocol: 'tls' | 'tcp', rule: string): Account {
    const cut = () => this.cut(refused(NO_RULES));
    const judge = (rules: LoadedRules): EgressDecision => decideOpaque(rules, this.target, protocol);
    return this.#begin({ judge, cut, isCut: false }, { rule, protocol });
  }

  /** Writes down what was not let through, or failed before it began. */
  recordFailure(thrown: unknown, request: Recorded | null = null): void {
    const { code, facts } = asAppError(thrown);
    const rule = typeof facts['rule'] === 'string' ? facts['rule'] : null;
    const approval = (typeof facts['approval'] === 'string' && parseId('approval', facts['approval'])) || null;
    const outcome = OUTCOME_OF[code] ?? 'failed';
    this.#record({
      protocol: request === null ? 'tcp' : 'http',
      request,
      rule,
      approval,
      outcome,
      sinceMs: performance.now(),
    });
  }

  judgeAgain(): boolean {
    const rules = this.#options.rules();
    if (rules === null || !decideTarget(rules, this.target).allowed) return false;
    if ([...this.#dialled].some((is) => !decideAddress(rules, this.target, is).allowed)) return false;
    for (const one of [...this.#underWay]) {
      if (one.judge(rules).allowed) continue;
      one.isCut = true;
      one.cut();
    }
    return true;
  }

  cut(reason: AppError): void {
    this.#cut.abort(reason);
    this.guest.destroy();
  }

  /** Destroys the stream when it is cut. */
  bind<S extends Duplex>(stream: S): S {
    const destroy = (): void => void stream.destroy();
    stream.on('error', () => undefined);
    stream.once('close', () => this.signal.removeEventListener('abort', destroy));
    if (this.signal.aborted) destroy();
    else this.signal.addEventListener('abort', destroy, { once: true });
    return stream;
  }

  #judge(decide: (rules: EgressRules) => EgressDecision): EgressDecision {
    const rules = this.#options.rules();
    return rules === null ? NO_RULES : decide(rules);
  }

  #begin(underWay: UnderWay, what: Begun): Account {
    const { rule, request = null, secret = null, approval = null, protocol = 'http' } = what;
    const sinceMs = performance.now();
    this.#underWay.add(underWay);
    const account: Account = {
      sentBytes: 0,
      receivedBytes: 0,
      end: (ended, status) => {
        if (!this.#underWay.delete(underWay)) return;
        // However it is noticed by who carries it.
        const isCut = ended !== 'allowed' && (underWay.isCut || this.signal.aborted);
        const outcome = isCut ? 'cut' : ended;
        const { sentBytes, receivedBytes } = account;
        const bytes = { sentBytes, receivedBytes, status: status ?? null };
        this.#record({ protocol, request, rule, secret, approval, outcome, sinceMs, ...bytes });
      },
    };
    return account;
  }

  #record(
    what: Pick<EgressRecord, 'protocol' | 'rule' | 'outcome'> &
      Partial<Pick<EgressRecord, 'sentBytes' | 'receivedBytes' | 'status' | 'secret' | 'approval'>> & {
        readonly request: Recorded | null;
        readonly sinceMs: number;
      },
  ): void {
    const { request, sinceMs, ...told } = what;
    const durationMs = Math.round(performance.now() - sinceMs);
    this.#options.record({
      sandboxId: this.connection.sandboxId,
      lifeId: this.connection.lifeId,
      at: new Date(Date.now() - durationMs).toISOString(),
      ...this.target,
      method: request === null ? null : printable(request.method, MAX_RECORDED_METHOD),
      path: request === null ? null : printable(request.path, MAX_RECORDED_PATH),
      calls: request?.spoken?.flatMap((one) => describeSpoken(one) ?? []).join('; ') || null,
      secret: null,
      approval: null,
      sentBytes: 0,
      receivedBytes: 0,
      status: null,
      ...told,
      durationMs,
    });
  }
}

/** Whatever a guest sent, it is read on somebody's terminal. */
function printable(text: string, length: number): string {
  const encode = (letter: string) => `%${letter.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
  return text
    .slice(0, length)
    .replace(/[^\x20-\x7e]/g, encode)
    .slice(0, length);
}
