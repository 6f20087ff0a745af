/** What one rule covers, and whether one lies within another. */
import { isAddress, normaliseHost } from './hosts.ts';
import type { AllowRule, AskRule, NetworkPolicy, NetworkPreset } from './network-policy.ts';
import { PACKAGE_REGISTRIES } from './registries.ts';

/** A rule with the name by which a person finds it again. */
export interface NamedRule {
  readonly name: string;
  readonly rule: AllowRule;
}

export interface NamedAsk {
  readonly name: string;
  readonly rule: AskRule;
}

const HTTP = { protocol: 'http', path: '/' } as const;

/** A host of a rule in the form that is compared; null: it is none. */
export function normaliseHostPattern(text: string): string | null {
  if (text === '*') return text;
  const below = text.startsWith('*.');
  const host = normaliseHost(below ? text.slice(2) : text);
  if (host === null) return null;
  if (!below) return host;
  return isAddress(host) ? null : `*.${host}`;
}

export function matchesHost(pattern: string, host: string): boolean {
  if (pattern === '*') return true;
  if (pattern.startsWith('*.')) return !isAddress(host) && host.endsWith(pattern.slice(1));
  return pattern === host;
}

export function matchesPort({ ports }: Pick<AllowRule, 'ports'>, port: number): boolean {
  return ports === 'all' || ports.includes(port);
}

export function matchesPath(prefix: string, path: string): boolean {
  const base = prefix.endsWith('/') ? prefix : `${prefix}/`;
  return path === prefix || path.startsWith(base);
}

const PRESETS: Readonly<Record<NetworkPreset, readonly NamedRule[]>> = {
  none: [],
  packages: Object.entries(PACKAGE_REGISTRIES).flatMap(([registry, hosts]) =>
    hosts.map((host) => ({
      name: `packages: ${registry}`,
      rule: { ...HTTP, host, ports: [80, 443], access: 'read' },
    })),
  ),
  internet: [
    { name: 'internet', rule: { ...HTTP, host: '*', ports: 'all', access: 'write' } },
    { name: 'internet', rule: { ...HTTP, host: '*', ports: 'all', access: 'write', protocol: 'tcp' } },
  ],
};

/** Those that a policy consists of, the preset's last. */
export function rulesOf({ preset, allow }: Pick<NetworkPolicy, 'preset' | 'allow'>): readonly NamedRule[] {
  return [...allow.map((rule, index) => ({ name: `allow ${index + 1}: ${rule.host}`, rule })), ...PRESETS[preset]];
}

export function asksOf({ ask }: Pick<NetworkPolicy, 'ask'>): readonly NamedAsk[] {
  return ask.map((rule, index) => ({ name: `ask ${index + 1}: ${rule.host}`, rule }));
}

/** Whether all that `inner` asks for is asked for by `outer`. */
export function asksWithin(inner: AskRule, outer: AskRule): boolean {
  const { host, ports, path } = outer;
  const form = { protocol: 'http', access: 'write' } as const;
  return (
    (outer.access === 'any' || inner.access === 'write') &&
    liesWithin({ ...inner, ...form }, { host, ports, path, ...form })
  );
}

/** Whether all that `inner` lets through is let through by `outer`. */
export function liesWithin(inner: AllowRule, outer: AllowRule): boolean {
  return (
    hostLiesWithin(inner.host, outer.host) &&
    portsLieWithin(inner.ports, outer.ports) &&
    inner.protocol === outer.protocol &&
    (outer.access === 'write' || inner.access === 'read') &&
    matchesPath(outer.path, inner.path)
  );
}

export function hostLiesWithin(inner: string, outer: string): boolean {
  if (outer === '*' || inner === outer) return true;
  if (!outer.startsWith('*.') || inner === '*') return false;
  return inner.startsWith('*.') ? inner.endsWith(outer.slice(1)) : matchesHost(outer, inner);
}

function portsLieWithin(inner: AllowRule['ports'], outer: AllowRule['ports']): boolean {
  if (outer === 'all') return true;
  return inner !== 'all' && inner.every((port) => outer.includes(port));
}
