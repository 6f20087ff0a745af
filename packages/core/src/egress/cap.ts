/** Whether a policy keeps within an organisation's constraints. A wider one is refused as it is, never made narrower. */
import { AppError } from '../errors.ts';
import type { AllowRule, AskRule, NetworkConstraints, NetworkPolicy } from './network-policy.ts';
import { asksOf, asksWithin, hostLiesWithin, hostsDenied, liesWithin, type NamedRule, rulesOf } from './rules.ts';

/** What is too wide, each by its name; empty: it keeps within. */
export function exceeding(policy: NetworkPolicy, constraints: NetworkConstraints): readonly string[] {
  const widest = rulesOf(constraints).map(({ rule }) => rule);
  const tooWide = rulesOf(policy).filter(({ rule }) => !isCovered(rule, widest));
  const barred = policy.allow.flatMap((rule, index) => {
    const name = `allow ${index + 1}: ${rule.host}`;
    if (hostsDenied(constraints.deny).some((pattern) => hostLiesWithin(rule.host, pattern)))
      return [`${name} (denied)`];
    const writes = rule.access === 'write' || rule.protocol !== 'http';
    if (constraints.ask.some((one) => isAskedFor(rule, one))) return [`${name} (only when asked)`];
    const readOnly = writes && constraints.readOnly.some((pattern) => hostLiesWithin(rule.host, pattern));
    return readOnly ? [`${name} (read only)`] : [];
  });
  const asks = asksOf(policy).flatMap(({ name, rule }) => {
    if (hostsDenied(constraints.deny).some((pattern) => hostLiesWithin(rule.host, pattern)))
      return [`${name} (denied)`];
    if (constraints.readOnly.some((pattern) => hostLiesWithin(rule.host, pattern))) return [`${name} (read only)`];
    const { host, ports, path } = rule;
    const form: AllowRule = { host, ports, path, protocol: 'http', access: 'write' };
    return isCovered(form, widest) || constraints.ask.some((outer) => asksWithin(rule, outer)) ? [] : [name];
  });
  return [...new Set([...tooWide.map(nameOf), ...barred, ...asks])];
}

/** Throws `network_too_wide`. */
export function checkWithin(policy: NetworkPolicy, constraints: NetworkConstraints): void {
  const [first, ...more] = exceeding(policy, constraints);
  if (first === undefined) return;
  throw new AppError('network_too_wide', {
    detail: `The organisation does not allow: ${[first, ...more].slice(0, 10).join('; ')}${more.length > 9 ? '; …' : ''}.`,
    facts: { exceeds: first },
  });
}

function isCovered(rule: AllowRule, widest: readonly AllowRule[]): boolean {
  // What lets any bytes through lets TLS through unopened.
  const forms: readonly AllowRule[] = rule.protocol === 'tls' ? [rule, { ...rule, protocol: 'tcp' }] : [rule];
  return forms.some((form) => widest.some((outer) => liesWithin(form, outer)));
}

/** Whether a rule lets through what the organisation wants to be asked for, and nothing else. */
function isAskedFor(rule: AllowRule, ask: AskRule): boolean {
  const { host, ports, path } = ask;
  return (
    ask.access === 'any' &&
    ask.tools === undefined &&
    liesWithin({ ...rule, protocol: 'http' }, { host, ports, path, protocol: 'http', access: 'write' })
  );
}

function nameOf({ name }: NamedRule): string {
  return name;
}
