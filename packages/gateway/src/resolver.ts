/**
 * Names to addresses, by the gateway's own asking: what a guest believes of a name changes nothing. Every address is judged,
 * and those that come back are the ones that are dialled; nothing is looked up a second time.
 */
import { lookup, Resolver } from 'node:dns/promises';
import {
  AppError,
  classifyAddress,
  decideAddress,
  decideDenied,
  type EgressRules,
  type EgressTarget,
  isAddress,
} from '@space/core';
import { refused } from './refusal.ts';

const RESOLVE_WITHIN_MS = 10_000;
const MAX_ADDRESSES = 8;

export type Resolve = (host: string) => Promise<readonly string[]>;

/** What DNS says of a name that is not there: the machine may know it otherwise. */
const NOT_IN_DNS: readonly unknown[] = ['ENOTFOUND', 'ENODATA', 'ECONNREFUSED'];
/** Each takes a thread for as long as it lasts, of which a process has four. */
const PARALLEL_LOOKUPS = 2;

/** By the servers that are named; or by the machine's, and for names that these do not know by what else it goes by. */
export function createResolve(servers?: readonly string[]): Resolve {
  const resolver = new Resolver({ timeout: 3_000, tries: 2 });
  if (servers !== undefined) {
    resolver.setServers(servers);
    return (host) => ask(resolver, host);
  }
  const known = new Lookups();
  return async (host) => {
    try {
      return await ask(resolver, host);
    } catch (thrown) {
      if (!NOT_IN_DNS.includes((thrown as NodeJS.ErrnoException).code)) throw thrown;
      return known.lookUp(host);
    }
  };
}

async function ask(resolver: Resolver, host: string): Promise<readonly string[]> {
  const [v4, v6] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  const found = [v4, v6].flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
  if (found.length === 0 && v4.status === 'rejected') throw v4.reason;
  return found;
}

class Lookups {
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  async lookUp(host: string): Promise<readonly string[]> {
    while (this.#running >= PARALLEL_LOOKUPS) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#running++;
    try {
      return (await lookup(host, { all: true })).map(({ address }) => address);
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }
}

/** The addresses to dial. One that may not be dialled refuses all: nobody mixes them who means well. */
export async function resolveTarget(
  resolve: Resolve,
  rules: EgressRules,
  target: EgressTarget,
): Promise<readonly string[]> {
  const addresses = isAddress(target.host) ? [target.host] : await within(resolve(target.host), target.host);
  const denied = decideDenied(rules, addresses);
  if (denied !== null) throw refused(denied);
  for (const address of addresses) {
    const decision = decideAddress(rules, target, classifyAddress(address) ?? 'reserved');
    if (!decision.allowed) throw refused(decision);
  }
  return addresses.slice(0, MAX_ADDRESSES);
}

async function within(answer: Promise<readonly string[]>, host: string): Promise<readonly string[]> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error('no answer in time')), RESOLVE_WITHIN_MS);
  try {
    const addresses = await Promise.race([answer, late.promise]);
    if (addresses.length === 0) throw new Error('it has no address');
    return addresses;
  } catch (cause) {
    throw new AppError('egress_failed', `The name ${host} could not be resolved.`, { cause });
  } finally {
    clearTimeout(timer);
  }
}
