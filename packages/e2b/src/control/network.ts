/**
 * What a sandbox may reach, from E2B's words to ours and back. Theirs name addresses, networks and names, ours hosts; what ours cannot
 * say is refused, and nothing of it is dropped. A sandbox that says nothing reaches the internet, as theirs do, as far as its
 * organisation allows that.
 */
import { isIP } from 'node:net';
import type { Caller, UseCases } from '@space/contract';
import { liesInNetwork, type NetworkPolicy, normaliseNetwork } from '@space/core';
import { z } from 'zod';
import { E2bError, isCode, refused } from '../errors.ts';
import type { E2bCall } from './call.ts';

const ANYWHERE = '0.0.0.0/0';
const entries = z.array(z.string().min(1).max(300)).max(200);

const egressFields = {
  allowOut: entries.optional(),
  denyOut: entries.optional(),
  egressProxy: z.unknown().optional(),
  rules: z.unknown().optional(),
};

export const networkField = z.strictObject({
  ...egressFields,
  allowPublicTraffic: z.boolean().optional(),
  maskRequestHost: z.string().optional(),
  httpsPorts: z.array(z.number()).optional(),
});

export const networkBody = z.strictObject({ ...egressFields, allow_internet_access: z.boolean().optional() });

type Egress = z.output<typeof networkBody>;
/** As the contract takes it. */
export interface AskedNetwork {
  readonly preset: NetworkPolicy['preset'];
  readonly allow: readonly object[];
  readonly deny: readonly string[];
}

const INTERNET: AskedNetwork = { preset: 'internet', allow: [], deny: [] };
const SHUT: AskedNetwork = { preset: 'none', allow: [], deny: [] };

/** Undefined: nothing is said of it. Throws for what cannot be had. */
export function askedNetwork(asked: Egress): AskedNetwork | undefined {
  const { allowOut = [], denyOut = [], allow_internet_access: internet } = asked;
  if (isSaid(asked.rules)) {
    throw refused(
      'network.rules',
      'Bind a secret to the host instead: credentials are then placed outside of the sandbox.',
    );
  }
  if (isSaid(asked.egressProxy))
    throw refused('network.egressProxy', 'Everything leaves by the gateway of this server.');
  if (allowOut.length === 0 && denyOut.length === 0) {
    if (internet === undefined) return undefined;
    return internet ? INTERNET : SHUT;
  }
  const closed = internet === false || denyOut.includes(ANYWHERE);
  for (const entry of denyOut) checkDenied(entry);
  const allow = allowOut.map((entry) => ruleFor(entry, closed));
  const deny = denyOut.filter((entry) => entry !== ANYWHERE).map((entry) => hostOf(entry));
  const both = allowOut.map(hostOf).find((host) => deny.some((one) => one === host || liesInNetwork(host, one)));
  if (both !== undefined) throw refused(`Both allowing and denying ${both}`, 'Here what is denied is denied.');
  return { preset: closed ? 'none' : 'internet', allow, deny };
}

const NARROWER: readonly NetworkPolicy['preset'][] = ['packages', 'none'];

/**
 * Runs it with the network that was asked for. Where nobody chose one, and the organisation has a narrower one, it is that; who may not
 * see what the organisation allows gets the widest preset that it does.
 */
export async function withNetwork<T>(
  { platform, caller }: Pick<E2bCall, 'platform' | 'caller'>,
  asked: AskedNetwork | undefined,
  run: (network: object) => Promise<T>,
): Promise<T> {
  try {
    return await run(asked ?? INTERNET);
  } catch (thrown) {
    const isChosen = asked !== undefined && asked !== INTERNET;
    if (isChosen || !isCode(thrown, 'network_too_wide')) throw thrown;
  }
  for (const network of await narrower(platform.useCases, caller)) {
    try {
      return await run(network);
    } catch (thrown) {
      if (!isCode(thrown, 'network_too_wide')) throw thrown;
    }
  }
  return run(SHUT);
}

async function narrower(useCases: UseCases, caller: Caller): Promise<readonly object[]> {
  try {
    const { preset, allow, ask, deny } = await useCases.getNetwork(caller, {});
    return [{ preset, allow, ask, deny }];
  } catch (thrown) {
    if (!isCode(thrown, 'forbidden')) throw thrown;
    return NARROWER.map((preset) => ({ preset }));
  }
}

function isSaid(value: unknown): boolean {
  return value !== undefined && value !== null && !(typeof value === 'object' && Object.keys(value).length === 0);
}

function checkDenied(entry: string): void {
  if (entry === ANYWHERE || isIP(hostOf(entry)) !== 0 || normaliseNetwork(entry) !== null) return;
  throw new E2bError(400, `invalid denied CIDR ${entry}`);
}

function ruleFor(entry: string, closed: boolean): object {
  const host = hostOf(entry);
  if (host.includes('/')) throw refused(`Allowing the network ${entry}`, 'Allow addresses or names one by one.');
  if (isIP(host) === 0 && !closed) {
    throw new E2bError(
      400,
      `When specifying allowed domains in allow out, you must include '${ANYWHERE}' in deny out to block all other traffic.`,
    );
  }
  return isIP(host) === 0 ? { host, access: 'write', ports: [80, 443] } : { host, protocol: 'tcp', ports: 'all' };
}

/** A network of one address is that address. */
function hostOf(entry: string): string {
  const [address = '', bits] = entry.split('/');
  const whole = isIP(address) === 4 ? '32' : isIP(address) === 6 ? '128' : undefined;
  return whole !== undefined && bits === whole ? address : entry;
}

export function shownNetwork({ preset, allow, deny }: NetworkPolicy) {
  const denied = deny.filter((one) => typeof one === 'string');
  return {
    allowInternetAccess: preset === 'internet',
    allowOut: allow.map(({ host }) => host),
    denyOut: preset === 'internet' ? denied : [ANYWHERE, ...denied],
  };
}
