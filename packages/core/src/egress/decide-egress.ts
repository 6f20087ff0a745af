/**
 * Whether something may leave a sandbox: the one decision, made for each connection and each request, with the rule that made
 * it. The organisation's constraints stand above the policy; in each, what denies stands above what asks, and that above what
 * allows; what nothing allows is denied. What has to be asked for first is not allowed: whoever does not ask lets nothing out.
 */
import type { AddressClass } from './addresses.ts';
import type { AllowRule, AskRule, EgressProtocol, NetworkConstraints, NetworkPolicy } from './network-policy.ts';
import { asksOf, matchesHost, matchesPath, matchesPort, type NamedAsk, type NamedRule, rulesOf } from './rules.ts';

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
}

/**
 * `owner`: whoever may change the sandbox. `admin`: of the organisation. `operator`: who runs the installation. `reviewer`: it
 * is held until one has approved it; see `mustBeAsked`.
 */
export type AskWhom = 'owner' | 'admin' | 'operator' | 'reviewer' | 'nobody';

export type EgressDecision =
  | { readonly allowed: true; readonly rule: string }
  | { readonly allowed: false; readonly rule: string; readonly reason: string; readonly ask: AskWhom };

const READS: readonly string[] = ['GET', 'HEAD', 'OPTIONS'];
/** Headers by which a read becomes something else: another protocol, or another method. */
const TURNS_INTO_WRITE: readonly string[] = ['upgrade', 'x-http-method-override', 'x-http-method', 'x-method-override'];
/** Headers by which servers are told of another path than that of the request. */
const NAMES_ANOTHER_PATH: readonly string[] = ['x-original-url', 'x-rewrite-url', 'x-original-uri', 'x-override-url'];

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
  // To servers that take headers for variables of their environment, `_` and `-` are the same.
  const names = request.headers.map((name) => name.replaceAll('_', '-'));
  const reads = READS.includes(request.method);
  // A server that expects no body with a read takes it for the next request, of which nobody has judged anything.
  const isWrite = !reads || request.hasBody || names.some((name) => TURNS_INTO_WRITE.includes(name));
  const readOnly = isWrite ? readOnlyHost(rules, request) : null;
  if (readOnly !== null) {
    const why = reads
      ? 'A body, an upgrade or another method in a header makes it a write.'
      : `${request.method} is a write.`;
    return deniedByReadOnly(readOnly, why);
  }
  const isPlain = isPlainPath(request.path) && !names.some((name) => NAMES_ANOTHER_PATH.includes(name));
  const isBelow = (path: string): boolean => path === '/' || (isPlain && matchesPath(path, request.path));
  const asksFor = ({ access }: AskRule): boolean => access === 'any' || isWrite;
  const decision = decide(rules, request, {
    covers: ({ protocol, access, path }) => protocol === 'http' && (access === 'write' || !isWrite) && isBelow(path),
    asks: (rule) => asksFor(rule) && isBelow(rule.path),
  });
  // A path that may lead elsewhere may lead to where one has to be asked.
  const asked = decision.allowed
    ? firstThatAsks(
        rules,
        request,
        (rule) => asksFor(rule) && (!isPlain || matchesPath(folded(rule.path), folded(request.path))),
      )
    : null;
  if (asked === null) return decision;
  if (names.includes('upgrade')) {
    const why = 'A reviewer has to be asked there, and what follows an upgrade cannot be read, so that nobody can be.';
    return denied(asked.name, why, asked.whom);
  }
  return denied(asked.name, 'A reviewer has to approve it first.', 'reviewer');
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
  const barred = constraints.deny.find((pattern) => matchesHost(pattern, target.host));
  if (barred !== undefined) return denied(`organisation, deny: ${barred}`, 'The organisation denies it.', 'admin');
  const refused = policy.deny.find((pattern) => matchesHost(pattern, target.host));
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

function denied(rule: string, reason: string, ask: AskWhom): EgressDecision {
  return { allowed: false, rule, reason, ask };
}

/** As a server may read it that minds neither case nor which letters are encoded. */
function folded(path: string): string {
  return path
    .replace(/%([0-9a-f]{2})/gi, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .toLowerCase();
}

/**
 * Whether every server reads the path as it is written. One that has dots as segments, or encodes dots, slashes or control
 * characters (also as UTF-8 that is too long, or in no encoding at all), may lead elsewhere, so no rule for a path covers it.
 */
function isPlainPath(path: string): boolean {
  return (
    path.startsWith('/') &&
    !path.includes('//') &&
    !/[\\;\p{Cc}\xc0\xc1]|%(2e|2f|5c|25|3b|[01][0-9a-f]|7f|c[01])|%(?![0-9a-f]{2})/iu.test(path) &&
    !path.split('/').some((segment) => /^\.+(%.*)?$/.test(segment))
  );
}
