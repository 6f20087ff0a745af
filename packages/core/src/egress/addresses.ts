/**
 * What an IP address is for. The gateway asks this of the address that it is about to dial, after all resolving is done, so
 * that no name, notation or mapped form leads to where no rule could lead. What no table knows as public is not.
 */

/** Of these, an organisation can be allowed `private` ones by name; the others are never dialled. */
export type AddressClass = 'public' | 'private' | 'metadata' | 'reserved';

type Bytes = readonly number[];
type Range = readonly [prefix: string, length: number, is: AddressClass];

/** Most specific first; what is in none is public. */
const RANGES_V4: readonly Range[] = [
  // The metadata services of clouds, also where they lie among public or private addresses.
  ['169.254.169.254', 32, 'metadata'],
  ['168.63.129.16', 32, 'metadata'],
  ['100.100.100.200', 32, 'metadata'],
  ['192.0.0.192', 32, 'metadata'],
  ['10.0.0.0', 8, 'private'],
  ['172.16.0.0', 12, 'private'],
  ['192.168.0.0', 16, 'private'],
  ['100.64.0.0', 10, 'private'],
  ['127.0.0.0', 8, 'private'],
  ['0.0.0.0', 8, 'reserved'],
  ['169.254.0.0', 16, 'reserved'],
  ['192.0.0.0', 24, 'reserved'],
  ['192.0.2.0', 24, 'reserved'],
  ['192.88.99.0', 24, 'reserved'],
  ['198.18.0.0', 15, 'reserved'],
  ['198.51.100.0', 24, 'reserved'],
  ['203.0.113.0', 24, 'reserved'],
  ['224.0.0.0', 4, 'reserved'],
  ['240.0.0.0', 4, 'reserved'],
];

/** Most specific first; what is in none is reserved. */
const RANGES_V6: readonly Range[] = [
  ['fd00:ec2::254', 128, 'metadata'],
  ['::1', 128, 'private'],
  ['fc00::', 7, 'private'],
  // Teredo, ORCHID and others; documentation; 6to4, which names an IPv4 address; segment routing.
  ['2001::', 23, 'reserved'],
  ['2001:db8::', 32, 'reserved'],
  ['2002::', 16, 'reserved'],
  ['3fff::', 20, 'reserved'],
  ['2000::', 3, 'public'],
];

/** Forms of IPv6 that stand for an IPv4 address in their last four bytes. */
const MAPPED: readonly (readonly [prefix: string, length: number])[] = [
  ['::ffff:0:0', 96],
  ['64:ff9b::', 96],
];

/** Null: it is no address, or one with a zone. */
export function classifyAddress(text: string): AddressClass | null {
  const bytes = parseAddress(text);
  return bytes === null ? null : classOf(bytes);
}

/** Four or sixteen bytes; null: it is not an address in its usual notation. */
export function parseAddress(text: string): Bytes | null {
  return text.includes(':') ? parseV6(text) : parseV4(text);
}

/** `10.0.0.0/8`, in lower case; null: it is none. All that there is, is none either: a preset says that. */
export function normaliseNetwork(text: string): string | null {
  const network = networkIn(text);
  return network !== null && network.bits > 0 ? text.toLowerCase() : null;
}

/** Whether an address, also one that stands for an IPv4 address, lies in a network. */
export function liesInNetwork(address: string, text: string): boolean {
  const [bytes, network] = [parseAddress(address), networkIn(text)];
  if (bytes === null || network === null) return false;
  const plain = network.bytes.length === 4 && bytes.length === 16 && isMapped(bytes) ? bytes.slice(12) : bytes;
  return plain.length === network.bytes.length && begins(plain, network.bytes, network.bits);
}

function networkIn(text: string): { readonly bytes: Bytes; readonly bits: number } | null {
  const [, address = '', digits] = /^([^/]+)\/(0|[1-9][0-9]{0,2})$/.exec(text) ?? [];
  const bytes = parseAddress(address);
  const bits = Number(digits);
  return bytes === null || digits === undefined || bits > bytes.length * 8 ? null : { bytes, bits };
}

function isMapped(bytes: Bytes): boolean {
  return MAPPED_RANGES.some(({ prefix, length }) => begins(bytes, prefix, length));
}

function classOf(bytes: Bytes): AddressClass {
  if (bytes.length === 4) return lookUp(bytes, V4) ?? 'public';
  return isMapped(bytes) ? classOf(bytes.slice(12)) : (lookUp(bytes, V6) ?? 'reserved');
}

interface ParsedRange {
  readonly prefix: Bytes;
  readonly length: number;
}

function parsed(prefix: string, length: number): ParsedRange {
  const bytes = parseAddress(prefix);
  if (bytes === null) throw new Error(`${prefix} is no address`);
  return { prefix: bytes, length };
}

function lookUp(bytes: Bytes, ranges: readonly (ParsedRange & { readonly is: AddressClass })[]): AddressClass | null {
  return ranges.find(({ prefix, length }) => begins(bytes, prefix, length))?.is ?? null;
}

function begins(bytes: Bytes, prefix: Bytes, length: number): boolean {
  return bytes.every((byte, index) => {
    const bits = Math.min(8, Math.max(0, length - index * 8));
    const mask = (0xff00 >> bits) & 0xff;
    return (byte & mask) === ((prefix[index] ?? 0) & mask);
  });
}

function parseV4(text: string): Bytes | null {
  const parts = text.split('.');
  if (parts.length !== 4 || !parts.every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part))) return null;
  const bytes = parts.map(Number);
  return bytes.every((byte) => byte <= 255) ? bytes : null;
}

function parseV6(text: string): Bytes | null {
  const halves = text.split('::');
  if (halves.length > 2) return null;
  const [head, tail] = halves.map((half, index) => parseGroups(half, index === halves.length - 1));
  if (head === undefined || head === null || tail === null) return null;
  if (tail === undefined) return head.length === 16 ? head : null;
  const missing = 16 - head.length - tail.length;
  return missing >= 2 ? [...head, ...Array.from({ length: missing }, () => 0), ...tail] : null;
}

/** Only the last group of an address may be an IPv4 one. */
function parseGroups(text: string, isLast: boolean): Bytes | null {
  if (text === '') return [];
  const groups = text.split(':');
  const bytes: number[] = [];
  for (const [index, group] of groups.entries()) {
    const v4 = isLast && index === groups.length - 1 ? parseV4(group) : null;
    if (v4 !== null) bytes.push(...v4);
    else if (/^[0-9a-f]{1,4}$/i.test(group))
      bytes.push(Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255);
    else return null;
  }
  return bytes.length <= 16 ? bytes : null;
}

const V4 = RANGES_V4.map(([prefix, length, is]) => ({ ...parsed(prefix, length), is }));
const V6 = RANGES_V6.map(([prefix, length, is]) => ({ ...parsed(prefix, length), is }));
const MAPPED_RANGES = MAPPED.map(([prefix, length]) => parsed(prefix, length));
