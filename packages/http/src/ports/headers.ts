/**
 * The headers of a request on its way into a guest, and of its answer on its way out: what belongs to one connection stays on
 * it, what is ours does not go in, and what would reach beyond the preview does not come out. Headers keep their order, their
 * letters and their repetitions, as `rawHeaders` gives them.
 */
import type { IncomingMessage } from 'node:http';
import { AppError } from '@space/core';
import { MAX_PREVIEW_HEADERS } from '../limits.ts';
import { guestCookies, guestSetCookie, isOurHeader } from './credentials.ts';

export interface Way {
  /** By its own name, or below a path of the API, which shares its origin with other things. */
  readonly form: 'host' | 'path';
  readonly port: number;
  readonly encrypted: boolean;
  readonly clientAddress: string;
  /** Of the path form: what the guest doesn't see of the path. */
  readonly prefix?: string;
}

const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];
/** Only we say where a request comes from. */
const FORWARDED = /^(forwarded|via|x-real-ip|x-forwarded-.*)$/;
const WITH_LENGTH = ['POST', 'PUT', 'PATCH'];
/** They speak for more than the preview's origin, or for longer than it is there. */
const BEYOND = ['strict-transport-security', 'public-key-pins', 'alt-svc', 'clear-site-data'];
/** On the origin of the API a guest says nothing to a browser. */
const ON_SHARED_ORIGIN = ['set-cookie', 'service-worker-allowed', 'content-security-policy', 'refresh', 'link'];

/** Throws `bad_request` for what cannot be passed on without a second meaning. */
export function requestHeaders(request: IncomingMessage, way: Way, upgrade: boolean): string[] {
  const { rawHeaders, headers, method = 'GET' } = request;
  if (rawHeaders.length / 2 > MAX_PREVIEW_HEADERS) {
    throw new AppError('bad_request', `The request has more than ${MAX_PREVIEW_HEADERS} headers.`);
  }
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    throw new AppError('bad_request', 'The Transfer-Encoding can only be chunked.');
  }
  const own = connectionNames(headers.connection);
  const passed = pairsOf(rawHeaders).filter(([name, value]) => {
    const lower = name.toLowerCase();
    if (HOP_BY_HOP.includes(lower) || own.includes(lower) || FORWARDED.test(lower) || isOurHeader(lower, value))
      return false;
    return lower !== 'host' && lower !== 'cookie' && lower !== 'content-length';
  });
  const cookies = guestCookies(headers.cookie);
  return [
    ['Host', way.form === 'host' ? (headers.host ?? '') : `localhost:${way.port}`] as const,
    ...passed,
    ...(cookies === undefined ? [] : [['Cookie', cookies] as const]),
    ...framing(method, headers),
    ...(acceptsTrailers(headers['te']) ? [['TE', 'trailers'] as const] : []),
    ...forwarded(headers.host ?? '', way),
    ...(upgrade
      ? [['Connection', 'Upgrade'] as const, ['Upgrade', 'websocket'] as const]
      : [['Connection', 'close'] as const]),
  ].flat();
}

/** Exactly one way to say where the body ends. */
function framing(method: string, headers: IncomingMessage['headers']): (readonly [string, string])[] {
  if (headers['transfer-encoding'] !== undefined) {
    return [
      ['Transfer-Encoding', 'chunked'],
      ...(headers.trailer === undefined ? [] : [['Trailer', headers.trailer] as const]),
    ];
  }
  const length = headers['content-length'];
  if (length !== undefined) return [['Content-Length', length]];
  return WITH_LENGTH.includes(method) ? [['Content-Length', '0']] : [];
}

function forwarded(host: string, { encrypted, clientAddress, prefix }: Way): (readonly [string, string])[] {
  return [
    ['X-Forwarded-For', clientAddress],
    ['X-Forwarded-Host', host],
    ['X-Forwarded-Proto', encrypted ? 'https' : 'http'],
    ...(prefix === undefined ? [] : [['X-Forwarded-Prefix', prefix] as const]),
  ];
}

export function responseHeaders({ rawHeaders, headers }: IncomingMessage, { form }: Pick<Way, 'form'>): string[] {
  const own = connectionNames(headers.connection);
  const passed = pairsOf(rawHeaders).flatMap(([name, value]) => {
    const lower = name.toLowerCase();
    if (HOP_BY_HOP.includes(lower) && lower !== 'trailer') return [];
    if (own.includes(lower) || BEYOND.includes(lower)) return [];
    if (form === 'path' && ON_SHARED_ORIGIN.includes(lower)) return [];
    if (lower !== 'set-cookie') return [[name, value] as const];
    const cookie = guestSetCookie(value);
    return cookie === undefined ? [] : [[name, cookie] as const];
  });
  const guards: (readonly [string, string])[] =
    form === 'host'
      ? []
      : [
          // A page of the guest, opened here, has an origin of nobody and runs nothing.
          ['Content-Security-Policy', "sandbox; default-src 'none'"],
          ['Cross-Origin-Resource-Policy', 'same-origin'],
        ];
  return [...passed, ...guards].flat();
}

/** What the sender says belongs to this connection alone. */
function connectionNames(connection: string | undefined): string[] {
  return (connection ?? '').split(',').map((name) => name.trim().toLowerCase());
}

function acceptsTrailers(te: string | readonly string[] | undefined): boolean {
  return String(te ?? '')
    .split(',')
    .some((one) => one.trim().toLowerCase() === 'trailers');
}

function pairsOf(raw: readonly string[]): (readonly [string, string])[] {
  return Array.from({ length: raw.length / 2 }, (_, at) => [raw[2 * at] ?? '', raw[2 * at + 1] ?? ''] as const);
}
