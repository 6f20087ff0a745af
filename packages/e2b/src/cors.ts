/**
 * What browsers ask before a page may call another server: everything is allowed to everybody, as E2B's servers answer. Nothing here
 * goes by who visits (there are no cookies): every call shows a key or a token, which a page has to know.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS';
/** What an answer tells beside its body. */
const EXPOSED =
  'X-Next-Token, X-Total-Running, X-Request-Id, Content-Disposition, Content-Length, Content-Range, Retry-After';
const MAX_AGE_S = 7_200;
/** Names of headers, as a browser lists them. */
const NAMES = /^[a-z0-9!#$%&'*+.^_`|~, -]{1,4000}$/i;

export const FOR_ALL_ORIGINS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': EXPOSED,
} as const;

export function isPreflight({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}

export function preflightHeaders(headers: IncomingHttpHeaders): Readonly<Record<string, string>> {
  const asked = headers['access-control-request-headers'];
  return {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': METHODS,
    // By name: a star would not stand for Authorization.
    ...(asked !== undefined && NAMES.test(asked) ? { 'access-control-allow-headers': asked } : {}),
    'access-control-max-age': String(MAX_AGE_S),
    vary: 'Access-Control-Request-Headers',
  };
}

export function answerPreflight(request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(204, preflightHeaders(request.headers)).end();
}
