/**
 * What a request to a preview proves itself with: a key or a share, in a header of ours, in Authorization, or a share in the
 * cookie that a visit with the token in the query leaves. None of it goes into the guest.
 */
import type { IncomingHttpHeaders } from 'node:http';

export type Credential =
  | { readonly kind: 'key'; readonly secret: string }
  | { readonly kind: 'share'; readonly secret: string; readonly from: 'header' | 'cookie' };

const KEY_HEADER = 'x-space-key';
const SHARE_HEADER = 'x-space-share';
export const SHARE_PARAMETER = 'space_share';

/** Over TLS no other host can set it. */
const cookieName = (encrypted: boolean) => (encrypted ? '__Host-space_share' : 'space_share');
const COOKIE_NAMES = [cookieName(true), cookieName(false)];

const SECRET = /^[\x21-\x7e]{1,512}$/;
const OURS = /^Bearer (space(?:share)?_[\x21-\x7e]{1,512})$/i;
/** Headers that other clients send keys and tokens of ours in; with another value they are the guest's. */
const OTHER_HEADERS = ['x-api-key', 'x-access-token'];
const OUR_SECRET = /^(?:Bearer +)?space(?:share|box)?_/i;
/** They say which sandbox, to us. */
const OTHER_CLIENTS = /^e2b-(?:sandbox-id|sandbox-port|traffic-access-token)$/;

/** Whether a header is for us, and nothing that a guest may see. `name`: in lower case. */
export function isOurHeader(name: string, value: string): boolean {
  if (name.startsWith('x-space-') || OTHER_CLIENTS.test(name)) return true;
  return (name === 'authorization' || OTHER_HEADERS.includes(name)) && OUR_SECRET.test(value.trim());
}

/** A key or token of ours in Authorization; what else is there is the guest's. */
function bearerIn(authorization: string | undefined): string | undefined {
  return OURS.exec(authorization ?? '')?.[1];
}

export function credentialIn(
  method: string | undefined,
  headers: IncomingHttpHeaders,
  encrypted: boolean,
): Credential | undefined {
  const share = headers[SHARE_HEADER];
  if (typeof share === 'string' && SECRET.test(share)) return { kind: 'share', secret: share, from: 'header' };
  const key = headers[KEY_HEADER];
  if (typeof key === 'string' && SECRET.test(key)) return { kind: 'key', secret: key };
  const bearer = bearerIn(headers.authorization);
  if (bearer?.startsWith('spaceshare_')) return { kind: 'share', secret: bearer, from: 'header' };
  if (bearer !== undefined) return { kind: 'key', secret: bearer };
  const cookie = cookiesIn(headers.cookie).find(([name]) => name === cookieName(encrypted))?.[1];
  if (cookie === undefined || !SECRET.test(cookie) || !isFromThePreview(method, headers)) return undefined;
  return { kind: 'share', secret: cookie, from: 'cookie' };
}

/**
 * Browsers send the cookie along with whatever any page asks of the preview, pages of other previews too. It counts only for
 * what the preview's own pages ask, and for going to it.
 */
function isFromThePreview(method: string | undefined, { host, origin, ...headers }: IncomingHttpHeaders): boolean {
  const goesThere = (method === 'GET' || method === 'HEAD') && headers['sec-fetch-mode'] === 'navigate';
  if (goesThere && headers.upgrade === undefined) return true;
  const site = headers['sec-fetch-site'];
  if (site === 'same-site' || site === 'cross-site') return false;
  return origin === undefined || (origin !== 'null' && origin.replace(/^https?:\/\//, '') === host);
}

/** The Cookie header for the guest: without ours. */
export function guestCookies(cookie: string | undefined): string | undefined {
  const left = cookiesIn(cookie).filter(([name]) => !COOKIE_NAMES.includes(name));
  return left.length === 0 ? undefined : left.map(([name, value]) => `${name}=${value}`).join('; ');
}

/** A cookie that the guest sets: on its own host only, and never ours. */
export function guestSetCookie(value: string): string | undefined {
  const [pair = '', ...attributes] = value.split(';');
  const name = pair.split('=', 1)[0]?.trim() ?? '';
  if (COOKIE_NAMES.some((ours) => ours.toLowerCase() === name.toLowerCase())) return undefined;
  return [pair, ...attributes.filter((attribute) => !/^\s*domain\s*(=|$)/i.test(attribute))].join(';');
}

export function shareCookie(token: string, encrypted: boolean, maxAgeSeconds: number): string {
  const secure = encrypted ? '; Secure' : '';
  return `${cookieName(encrypted)}=${token}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${maxAgeSeconds}${secure}`;
}

/** The token in a request target, and the target without it; undefined: it has none. */
export function takeShareFrom(url: string): { readonly token: string; readonly rest: string } | undefined {
  const [path = '', query] = splitOnce(url, '?');
  if (query === undefined) return undefined;
  const parameters = query.split('&');
  const prefix = `${SHARE_PARAMETER}=`;
  const token = parameters.find((one) => one.startsWith(prefix))?.slice(prefix.length);
  if (token === undefined) return undefined;
  const left = parameters.filter((one) => !one.startsWith(prefix));
  // Two slashes at its start would name another host.
  const here = path.replace(/^\/+/, '/');
  return { token, rest: left.length === 0 ? here : `${here}?${left.join('&')}` };
}

function cookiesIn(cookie: string | undefined): [string, string][] {
  if (cookie === undefined) return [];
  return cookie.split(';').flatMap((pair) => {
    const [name = '', value = ''] = splitOnce(pair.trim(), '=');
    return name === '' ? [] : [[name, value]];
  });
}

function splitOnce(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}
