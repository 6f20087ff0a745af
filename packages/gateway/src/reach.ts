/** How a host is reached, whoever asks: at an address that was judged, or by the proxy that all leaves by. */
import type { Socket } from 'node:net';
import type { AddressClass, EgressRules, EgressTarget } from '@space/core';
import { dial } from './dial.ts';
import { type Resolve, resolveTarget } from './resolver.ts';
import { classesBehindProxy, dialThrough, type UpstreamProxy } from './upstream-proxy.ts';

export interface ReachTools {
  readonly resolve: Resolve;
  readonly classify: (address: string) => AddressClass;
  /** That all leaves by; null: nothing does. */
  readonly proxy: UpstreamProxy | null;
}

interface Reached {
  readonly rules: EgressRules;
  readonly target: EgressTarget;
  /** Asked before anything is dialled; throws when one of them may not be. */
  readonly judge: (classes: readonly AddressClass[]) => void;
  readonly signal: AbortSignal;
}

/** Throws `egress_refused`, `egress_failed`. */
export async function reach({ rules, target, judge, signal }: Reached, tools: ReachTools): Promise<Socket> {
  const { resolve, classify, proxy } = tools;
  if (proxy !== null) {
    judge(classesBehindProxy(proxy, target, classify));
    return dialThrough(proxy, target, signal);
  }
  const addresses = await resolveTarget(resolve, rules, target);
  judge(addresses.map(classify));
  return dial(target, addresses, signal);
}
