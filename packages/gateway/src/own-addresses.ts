/** The class of an address as the gateway sees it: what is the machine's own is not public, whatever its range. */
import { networkInterfaces } from 'node:os';
import { type AddressClass, classifyAddress, parseAddress } from '@space/core';

/** Those of the machine's interfaces. Asked each time, since they come and go. */
export function addressesOfMachine(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((one) => (one ?? []).map(({ address }) => address));
}

/** From within the machine, a firewall before its public address guards nothing: so those are private too. */
export function classifierOf(ownAddresses: () => readonly string[]): (address: string) => AddressClass {
  return (address) => {
    const is = classifyAddress(address) ?? 'reserved';
    if (is !== 'public') return is;
    const form = formOf(address);
    return ownAddresses().some((own) => formOf(own) === form) ? 'private' : is;
  };
}

/** The same for an IPv4 address and all forms of IPv6 that stand for it: none of those is public otherwise. */
function formOf(address: string): string {
  const bytes = parseAddress(address.split('%', 1)[0] ?? '') ?? [];
  const isMapped = bytes.length === 16 && bytes[0] === 0;
  return (isMapped ? bytes.slice(12) : bytes).join('.');
}
