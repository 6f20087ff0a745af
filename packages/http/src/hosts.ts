/**
 * Which hosts the server answers for. A page in a browser can make its own name point at 127.0.0.1 (DNS rebinding) and so
 * reach a local server from a foreign origin; its requests carry that name in Host, and are refused here.
 */
import { BlockList, isIP } from 'node:net';

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** Whether only this machine can reach the address, or the name `localhost`. */
export function isLoopback(host: string): boolean {
  const version = isIP(host);
  if (version === 0) return host.toLowerCase() === 'localhost';
  return LOOPBACK.check(host, version === 6 ? 'ipv6' : 'ipv4');
}

/** The name in a Host header, without port and brackets, in lower case; undefined when it has no valid form. */
export function hostNameIn(header: string): string | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?$/i.exec(header);
  return (match?.[1] ?? match?.[2])?.toLowerCase();
}

export function createHostCheck(configured: readonly string[]): (header: string | undefined) => boolean {
  const hosts = new Set(configured.map((host) => host.toLowerCase()));
  return (header) => {
    const name = header === undefined ? undefined : hostNameIn(header);
    return name !== undefined && (isLoopback(name) || hosts.has(name));
  };
}

const MAX_SHOWN_LENGTH = 100;

/** What to say to who called the server by another name. */
export function refusalOf(header: string | undefined): string {
  if (header === undefined) return 'The request has no Host header.';
  return `The Host header is ${JSON.stringify(header.slice(0, MAX_SHOWN_LENGTH))}, which names no host of this server.`;
}
