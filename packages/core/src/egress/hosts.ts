/**
 * Names of hosts, in the one form that is compared, dialled, certified and logged: lower case, A-labels, no trailing dot; of
 * addresses the usual notation. What has no such form is no host.
 */
import { parseAddress } from './addresses.ts';

const MAX_NAME_LENGTH = 253;
/** Underscores are no letters of host names, yet there are hosts that have them. */
const LABEL = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/;
/** Letters that a parser of URLs would take for an end or a part of something else, and what it would drop or decode. */
const FORBIDDEN = /[\p{Cc}\p{Z}/\\?#@%<>^|"`{}]/u;

/** Null: it names no host. IPv6 addresses have brackets or not, and come back without. */
export function normaliseHost(text: string): string | null {
  if (text.length === 0 || text.length > MAX_NAME_LENGTH + 1 || FORBIDDEN.test(text)) return null;
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
  if (bare.includes(':')) return normaliseV6(bare);
  if (bare !== text) return null;
  const dotless = bare.endsWith('.') ? bare.slice(0, -1) : bare;
  const host = asciiOf(dotless);
  if (host === null || host.length > MAX_NAME_LENGTH) return null;
  return parseAddress(host) !== null || host.split('.').every((label) => LABEL.test(label)) ? host : null;
}

export function isAddress(host: string): boolean {
  return parseAddress(host) !== null;
}

/** The host and port of an authority as HTTP writes it; null: it is none, or says more. */
export function parseAuthority(authority: string, defaultPort: number): { host: string; port: number } | null {
  const [, named = '', digits] = /^(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?$/.exec(authority) ?? [];
  const host = normaliseHost(named);
  const port = digits === undefined ? defaultPort : Number(digits);
  return host === null || port < 1 || port > 65_535 ? null : { host, port };
}

/** Odd notations of IPv4 addresses (`0x7f.1`, `2130706433`) become the usual one here, as any resolver would read them. */
function asciiOf(name: string): string | null {
  try {
    return new URL(`http://${name}/`).hostname;
  } catch {
    return null;
  }
}

function normaliseV6(text: string): string | null {
  if (parseAddress(text) === null) return null;
  const compressed = asciiOf(`[${text}]`);
  return compressed === null ? null : compressed.slice(1, -1);
}
