/**
 * The head of a request, read strictly: what could be read in two ways is refused, since we decide on one reading and a
 * server may act on the other. Pure.
 */
import { type EgressRequest, type EgressTarget, parseAuthority } from '@space/core';
import type { Header } from './admission.ts';
import { mismatch } from './refusal.ts';

const MAX_METHOD_LENGTH = 32;
/** Far fewer than those of which the parser drops the rest, with what they say of the length of a body. */
const MAX_HEADERS = 256;
const METHOD = /^[A-Z][A-Z-]*$/;
const PATH = /^\/[\x21\x22\x24-\x7e\x80-\xff]*$/;

/** Of one connection: they are not handed on, but made anew where they are needed. In HTTP/2 none of them has a meaning, and they go too. */
const HOP_BY_HOP: readonly string[] = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
];
/** What `Connection` may name; anything else could take away a header on which somebody decides. */
const CONNECTION_OPTIONS: readonly string[] = ['close', 'keep-alive', 'upgrade', 'te', 'http2-settings', ''];

export interface RequestHead {
  readonly request: EgressRequest;
  /** As they were sent, without those of the connection. */
  readonly headers: readonly Header[];
  /** Whether the body comes in chunks, of which nobody knows how many. */
  readonly isChunked: boolean;
}

interface Http1Head {
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly isUpgrade: boolean;
}

/** Throws `egress_refused`. */
export function readHttp1Head(head: Http1Head, target: EgressTarget, defaultPort: number): RequestHead {
  const { rawHeaders, isUpgrade } = head;
  const named = pairsOf(rawHeaders);
  if (named.length > MAX_HEADERS) throw mismatch(`The request has more than ${MAX_HEADERS} headers.`);
  const valuesOf = (wanted: string) => named.filter(([name]) => name === wanted).map(([, value]) => value);
  const hosts = valuesOf('host');
  if (hosts.length !== 1) throw mismatch(`The request has ${hosts.length} Host headers, where there must be one.`);
  checkAuthority(hosts[0] ?? '', target, defaultPort);
  for (const value of valuesOf('connection').flatMap((values) => values.split(','))) {
    const option = value.trim().toLowerCase();
    if (!CONNECTION_OPTIONS.includes(option)) throw mismatch('The Connection header names a header of the request.');
  }
  const codings = valuesOf('transfer-encoding');
  const lengths = valuesOf('content-length');
  if (codings.length > 1 || lengths.length > 1 || (codings.length > 0 && lengths.length > 0)) {
    throw mismatch('The request says its length in two ways.');
  }
  if (codings.length > 0 && codings[0]?.trim().toLowerCase() !== 'chunked') {
    throw mismatch('The transfer encoding of the request is not "chunked".');
  }
  const hasBody = codings.length > 0 || lengths.some((length) => !/^0+$/.test(length.trim()));
  if (isUpgrade && hasBody) throw mismatch('A request for another protocol has a body.');
  const kept = named.filter(([name]) => !isHopByHop(name) || (isUpgrade && name === 'upgrade'));
  return {
    request: requestOf(
      { ...head, hasBody },
      target,
      kept.map(([name]) => name),
    ),
    headers: kept.map(([, value, name]) => [name, value]),
    isChunked: codings.length > 0,
  };
}

/** Throws `egress_refused`. */
export function readHttp2Head(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  target: EgressTarget,
  scheme: 'http' | 'https',
  hasBody: boolean,
): EgressRequest {
  const single = (name: string): string => {
    const value = headers[name];
    if (typeof value !== 'string') throw mismatch(`The request has no ${name}, or more than one.`);
    return value;
  };
  const authority = headers[':authority'] === undefined ? single('host') : single(':authority');
  const defaultPort = scheme === 'https' ? 443 : 80;
  checkAuthority(authority, target, defaultPort);
  if (headers['host'] !== undefined) checkAuthority(single('host'), target, defaultPort);
  if (headers[':protocol'] !== undefined) throw mismatch('Tunnels inside of a connection are not carried.');
  if (single(':scheme') !== scheme) throw mismatch('The scheme of the request is not that of its connection.');
  const names = Object.keys(headers).filter((name) => !name.startsWith(':'));
  return requestOf({ method: single(':method'), url: single(':path'), hasBody }, target, names);
}

/** Without the query; of a target that is no path, nothing: it may hold a password. */
export function pathOf(url: string | undefined): string {
  return url?.startsWith('/') === true ? (url.split('?', 1)[0] ?? '') : '';
}

export function pairsOf(raw: readonly string[]): (readonly [lowerCase: string, value: string, asSent: string])[] {
  const pairs: (readonly [string, string, string])[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? '';
    pairs.push([name.toLowerCase(), raw[at + 1] ?? '', name]);
  }
  return pairs;
}

export function isHopByHop(lowerCase: string): boolean {
  return HOP_BY_HOP.includes(lowerCase);
}

/** Of an answer also what only the gateway says. */
export function staysBehind(lowerCase: string): boolean {
  return isHopByHop(lowerCase) || lowerCase === 'proxy-status';
}

/** Of an answer, without the headers of its connection. */
export function answerHeaders(raw: readonly string[]): Header[] {
  return pairsOf(raw)
    .filter(([name]) => !staysBehind(name))
    .map(([, value, name]) => [name, value]);
}

function requestOf(
  { method, url, hasBody }: Pick<Http1Head, 'method' | 'url'> & { readonly hasBody: boolean },
  target: EgressTarget,
  headers: readonly string[],
): EgressRequest {
  if (method === 'CONNECT') throw mismatch('Tunnels inside of a connection are not carried.');
  if (method.length > MAX_METHOD_LENGTH || !METHOD.test(method)) throw mismatch('The method is not one.');
  const isWhole = method === 'OPTIONS' && url === '*';
  if (!isWhole && !PATH.test(url)) throw mismatch('The request names another target than a path.');
  const path = pathOf(url);
  return { ...target, method, path: isWhole ? '/' : path, headers: [...new Set(headers)], hasBody };
}

function checkAuthority(authority: string, { host, port }: EgressTarget, defaultPort: number): void {
  // Nearly always it is written in the one form that the target has, and to parse that costs most of what a head does.
  if (!host.includes(':') && authority === (port === defaultPort ? host : `${host}:${port}`)) return;
  const asked = parseAuthority(authority.trim(), defaultPort);
  if (asked?.host === host && asked.port === port) return;
  const shown = authority.replace(/[^\x21-\x7e]/g, '?').slice(0, 100);
  throw mismatch(`The request asks for "${shown}" on a connection to ${host}, port ${port}.`);
}
