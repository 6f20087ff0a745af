/**
 * Whether something may leave a sandbox: the one decision, made for each connection and each request, with the rule that made
 * it. The organisation's constraints stand above the policy; in each, what denies stands above what asks, and that above what
 * allows; what nothing allows is denied. What has to be asked for first is not allowed: whoever does not ask lets nothing out.
 */
import type { AddressClass } from './addresses.ts';
import type { Spoken, SpokenCalls } from './classify/spoken.ts';
import { accessBy, accessByHead, asks, covers, coversPath, mayAsk, mayCall, mayConcernPath } from './coverage.ts';
import type {
  AllowRule,
  AskRule,
  DeniedTools,
  EgressProtocol,
  NetworkConstraints,
  NetworkPolicy,
} from './network-policy.ts';
import {
  asksOf,
  hostsDenied,
  matchesHost,
  matchesPort,
  type NamedAsk,
  type NamedRule,
  rulesOf,
  toolsDenied,
} from './rules.ts';

export interface EgressRules {
  readonly policy: NetworkPolicy;
  readonly constraints: NetworkConstraints;
}

export interface EgressTarget {
  /** As `normaliseHost` gives it. */
  readonly host: string;
  readonly port: number;
}

export interface EgressRequest extends EgressTarget {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** Names in lower case. */
  readonly headers: readonly string[];
  /** Whether a body comes with it, or could. */
  readonly hasBody: boolean;
  /** What it asks for, in each protocol that a rule says its host may speak (`spokenAt`). Left out: nobody has looked. */
  readonly spoken?: readonly SpokenCalls[];
}

/**
 * `owner`: whoever may change the sandbox. `admin`: of the organisation. `operator`: who runs the installation. `reviewer`: it
 * is held until one has approved it; see `mustBeAsked`.
 */
export type AskWhom = 'owner' | 'admin' | 'operator' | 'reviewer' | 'nobody';

export type EgressDecision = { readonly allowed: true; readonly rule: string } | EgressDenial;

export interface EgressDenial {
  readonly allowed: false;
  readonly rule: string;
  readonly reason: string;
  readonly ask: AskWhom;
}

const READS: readonly string[] = ['GET', 'HEAD', 'OPTIONS'];
/** Asked before a name is looked up: whether any connection to it could be let through, as whatever. */
export function decideTarget(rules: EgressRules, target: EgressTarget): EgressDecision {
  return decide(rules, target, { covers: () => true, asks: () => true });
}

/** The third outcome: it leaves when a reviewer has approved it, and not before. */
export function mustBeAsked(decision: EgressDecision): boolean {
  return !decision.allowed && decision.ask === 'reviewer';
}

/** Of a connection that nothing is read of. */
export function decideOpaque(
  rules: EgressRules,
  target: EgressTarget,
  protocol: Exclude<EgressProtocol, 'http'>,
): EgressDecision {
  const readOnly = readOnlyHost(rules, target);
  if (readOnly !== null) return deniedByReadOnly(readOnly, 'What cannot be read counts as a write.');
  const decision = decide(rules, target, { covers: (rule) => rule.protocol === protocol, asks: () => false });
  // What nothing is read of cannot be shown to anybody, so where one has to be asked it does not leave.
  const asked = decision.allowed ? firstThatAsks(rules, target, () => true) : null;
  if (asked === null) return decision;
  const why = 'A reviewer has to be asked there, and nothing of this can be read, so that nobody can be.';
  return denied(asked.name, why, asked.whom);
}

export function decideRequest(rules: EgressRules, request: EgressRequest): EgressDecision {
  const readOnly = readOnlyHost(rules, request);
  if (readOnly !== null && writes(rules, request)) {
    const byMethod = READS.includes(request.method);
    const why = byMethod
      ? 'A body, an upgrade, or what it asks for makes it a write.'
      : `${request.method} is a write.`;
    return deniedByReadOnly(readOnly, why);
  }
  const decision =
    deniedTool(rules, request) ??
    decide(rules, request, { covers: (rule) => covers(rule, request), asks: (rule) => asks(rule, request) });
  const asked = decision.allowed ? firstThatAsks(rules, request, (rule) => mayAsk(rule, request)) : null;
  if (asked === null) return decision;
  if (request.headers.includes('upgrade')) {
    const why = 'A reviewer has to be asked there, and what follows an upgrade cannot be read, so that nobody can be.';
    return denied(asked.name, why, asked.whom);
  }
  return denied(asked.name, 'A reviewer has to approve it first.', 'reviewer');
}

/** What has to be read of it before it can be judged: what a rule that may be for it says that its host speaks. */
export function spokenAt({ policy, constraints }: EgressRules, request: EgressRequest): readonly Spoken[] {
  const isNear = ({ host, path }: Pick<AllowRule, 'host' | 'path'>): boolean =>
    matchesHost(host, request.host) && mayConcernPath(path, request);
  const rules = [...constraints.allow, ...constraints.ask, ...policy.allow, ...policy.ask];
  const said = rules
    .filter((rule) => matchesPort(rule, request.port) && isNear(rule))
    .flatMap(({ speaks, tools }) => (tools === undefined ? (speaks ?? []) : (['mcp'] as const)));
  const denied = toolsDenied([...constraints.deny, ...policy.deny]).some(isNear);
  return [...new Set([...said, ...(denied ? (['mcp'] as const) : [])])];
}

/**
 * Where nothing is written: only an admin says that a host speaks what is more than its methods. Where one says that it speaks
 * two things, it must be a read in both.
 */
function writes({ constraints }: EgressRules, request: EgressRequest): boolean {
  const said = constraints.allow.filter(
    (rule) =>
      rule.speaks !== undefined &&
      matchesHost(rule.host, request.host) &&
      matchesPort(rule, request.port) &&
      coversPath(rule.path, request),
  );
  const spoken = [...new Set(said.map(({ speaks }) => speaks))];
  if (spoken.length === 0) return accessByHead(request) === 'write';
  return !spoken.every((speaks) => said.some((rule) => rule.speaks === speaks && accessBy(rule, request) === 'read'));
}

function deniedTool({ policy, constraints }: EgressRules, request: EgressRequest): EgressDecision | null {
  const why = 'It calls a tool that is denied, or it cannot be told what it calls.';
  const barred = toolsDenied(constraints.deny).find((one) => mayCall(one, request));
  if (barred !== undefined) return denied(`organisation, deny: ${toolsText(barred)}`, why, 'admin');
  const refused = toolsDenied(policy.deny).find((one) => mayCall(one, request));
  return refused === undefined ? null : denied(`deny: ${toolsText(refused)}`, why, 'owner');
}

function toolsText({ host, path, tools }: DeniedTools): string {
  return `${host}${path === '/' ? '' : path} tools ${tools.join(', ')}`;
}

/** Of the addresses that a name has: what is denied by its address is so by whatever name. Null: none of them is. */
export function decideDenied({ policy, constraints }: EgressRules, addresses: readonly string[]): EgressDenial | null {
  const isOne = (pattern: string) => addresses.some((address) => pattern !== '*' && matchesHost(pattern, address));
  const barred = hostsDenied(constraints.deny).find(isOne);
  if (barred !== undefined) return denied(`organisation, deny: ${barred}`, 'The organisation denies it.', 'admin');
  const refused = hostsDenied(policy.deny).find(isOne);
  return refused === undefined ? null : denied(`deny: ${refused}`, 'The sandbox denies it.', 'owner');
}

/** Of the address that is about to be dialled. */
export function decideAddress(rules: EgressRules, { host }: EgressTarget, is: AddressClass): EgressDecision {
  if (is === 'public') return { allowed: true, rule: 'public address' };
  const { privateHosts } = rules.constraints;
  const pattern = privateHosts.find((one) => one !== '*' && matchesHost(one, host));
  if (is === 'private' && pattern !== undefined) return { allowed: true, rule: `private host: ${pattern}` };
  const reason = `${host} has an address that is not public (${is}).`;
  return { allowed: false, rule: 'public addresses only', reason, ask: is === 'private' ? 'operator' : 'nobody' };
}

interface Coverage {
  readonly covers: (rule: AllowRule) => boolean;
  /** Of rules that ask: they let through as well what they ask for. */
  readonly asks: (rule: AskRule) => boolean;
}

function decide(rules: EgressRules, target: EgressTarget, coverage: Coverage): EgressDecision {
  const { policy, constraints } = rules;
  const barred = hostsDenied(constraints.deny).find((pattern) => matchesHost(pattern, target.host));
  if (barred !== undefined) return denied(`organisation, deny: ${barred}`, 'The organisation denies it.', 'admin');
  const refused = hostsDenied(policy.deny).find((pattern) => matchesHost(pattern, target.host));
  if (refused !== undefined) return denied(`deny: ${refused}`, 'The sandbox denies it.', 'owner');
  const asked = firstAsk(policy, target, coverage.asks)?.name;
  const found = firstThatCovers(policy, target, coverage.covers);
  const name = asked ?? found?.name;
  if (name === undefined) return denied('no rule', 'No rule of the sandbox allows it.', 'owner');
  // Constraints may have become narrower since the policy was set.
  const isWithin =
    firstThatCovers(constraints, target, coverage.covers) !== null ||
    firstAsk(constraints, target, coverage.asks) !== null ||
    (found !== null && opensOpaque(found, rules, target));
  if (!isWithin) return denied('organisation', 'It is more than the organisation allows.', 'admin');
  return { allowed: true, rule: name };
}

/** TLS that is not opened needs a rule of its own in the policy; what lets any bytes through lets that through as well. */
function opensOpaque({ rule }: NamedRule, { constraints }: EgressRules, target: EgressTarget): boolean {
  return rule.protocol === 'tls' && firstThatCovers(constraints, target, (one) => one.protocol === 'tcp') !== null;
}

function firstThatCovers(
  policy: NetworkPolicy,
  { host, port }: EgressTarget,
  covers: (rule: AllowRule) => boolean,
): NamedRule | null {
  return (
    rulesOf(policy).find(({ rule }) => matchesHost(rule.host, host) && matchesPort(rule, port) && covers(rule)) ?? null
  );
}

function firstAsk(
  policy: Pick<NetworkPolicy, 'ask'>,
  { host, port }: EgressTarget,
  asks: (rule: AskRule) => boolean,
): NamedAsk | null {
  return (
    asksOf(policy).find(({ rule }) => matchesHost(rule.host, host) && matchesPort(rule, port) && asks(rule)) ?? null
  );
}

/** The organisation's stand first: who made the policy could do nothing about them. */
function firstThatAsks(
  { policy, constraints }: EgressRules,
  target: EgressTarget,
  asks: (rule: AskRule) => boolean,
): { readonly name: string; readonly whom: AskWhom } | null {
  const ofOrganisation = firstAsk(constraints, target, asks);
  if (ofOrganisation !== null) return { name: `organisation, ${ofOrganisation.name}`, whom: 'admin' };
  const own = firstAsk(policy, target, asks);
  return own === null ? null : { name: own.name, whom: 'owner' };
}

function readOnlyHost({ constraints }: EgressRules, { host }: EgressTarget): string | null {
  return constraints.readOnly.find((pattern) => matchesHost(pattern, host)) ?? null;
}

function deniedByReadOnly(pattern: string, why: string): EgressDecision {
  return denied(`organisation, read only: ${pattern}`, `The organisation lets this host be read only. ${why}`, 'admin');
}

function denied(rule: string, reason: string, ask: AskWhom): EgressDenial {
  return { allowed: false, rule, reason, ask };
}
