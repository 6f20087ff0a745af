/** What one rule covers, and whether one lies within another. */
import { liesInNetwork, normaliseNetwork } from './addresses.ts';
import { nameLiesWithin } from './classify/spoken.ts';
import { isAddress, normaliseHost } from './hosts.ts';
import type { AllowRule, AskRule, DeniedTools, DenyRule, NetworkPolicy, NetworkPreset } from './network-policy.ts';
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

/** What is denied can be a network as well: its addresses, and names that have one. */
export function normaliseDenial(text: string): string | null {
  return text.includes('/') ? normaliseNetwork(text) : normaliseHostPattern(text);
}

export function matchesHost(pattern: string, host: string): boolean {
  if (pattern.includes('/')) return liesInNetwork(host, pattern);
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

/** Hosts that are denied whatever is asked of them. */
export function hostsDenied(deny: readonly DenyRule[]): readonly string[] {
  return deny.filter((rule) => typeof rule === 'string');
}

export function toolsDenied(deny: readonly DenyRule[]): readonly DeniedTools[] {
  return deny.filter((rule) => typeof rule !== 'string');
}

/** Whether all that `inner` asks for is asked for by `outer`. */
export function asksWithin(inner: AskRule, outer: AskRule): boolean {
  return (
    hostLiesWithin(inner.host, outer.host) &&
    portsLieWithin(inner.ports, outer.ports) &&
    matchesPath(outer.path, inner.path) &&
    heldWithin(inner, outer)
  );
}

function heldWithin(inner: AskRule, outer: AskRule): boolean {
  const folded = (names: readonly string[]) => names.map((name) => name.toLowerCase());
  if (outer.tools !== undefined)
    return inner.tools !== undefined && namesLieIn(folded(inner.tools), folded(outer.tools));
  if (outer.access === 'any') return true;
  if (inner.tools !== undefined) return outer.speaks === undefined || outer.speaks === 'mcp';
  if (inner.access === 'any') return false;
  // A document in a URL can be a write, though its method is none.
  if (inner.speaks !== outer.speaks) return outer.speaks === undefined && inner.speaks !== 'graphql';
  return namesLieIn(outer.reads, inner.reads);
}

/** Whether all that `inner` lets through is let through by `outer`. */
export function liesWithin(inner: AllowRule, outer: AllowRule): boolean {
  return (
    hostLiesWithin(inner.host, outer.host) &&
    portsLieWithin(inner.ports, outer.ports) &&
    inner.protocol === outer.protocol &&
    (outer.access === 'write' || inner.access === 'read') &&
    matchesPath(outer.path, inner.path) &&
    callsLieWithin(inner, outer)
  );
}

/** Whether all that may be asked for by the one may be by the other. */
function callsLieWithin(inner: AllowRule, outer: AllowRule): boolean {
  // What writes, and not only with some tools, lets all through.
  if (outer.access === 'write' && outer.tools === undefined) return true;
  // Reading by methods alone is a part of what any protocol has as reading, but for documents in a URL.
  if (inner.speaks === undefined) return inner.access === 'read' && outer.speaks !== 'graphql';
  if (inner.speaks !== outer.speaks) return false;
  if (inner.access === 'write' && inner.tools === undefined) return false;
  return namesLieIn(inner.tools, outer.tools) && namesLieIn(inner.reads, outer.reads);
}

function namesLieIn(inner: readonly string[] = [], outer: readonly string[] = []): boolean {
  return inner.every((name) => nameLiesWithin(name, outer));
}

export function hostLiesWithin(inner: string, outer: string): boolean {
  if (outer === '*' || inner === outer) return true;
  if (outer.includes('/')) return liesInNetwork(inner, outer);
  if (!outer.startsWith('*.') || inner === '*') return false;
  return inner.startsWith('*.') ? inner.endsWith(outer.slice(1)) : matchesHost(outer, inner);
}

function portsLieWithin(inner: AllowRule['ports'], outer: AllowRule['ports']): boolean {
  if (outer === 'all') return true;
  return inner !== 'all' && inner.every((port) => outer.includes(port));
}
