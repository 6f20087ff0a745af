/**
 * How a secret is placed in a request. Pure. Where the guest has sent something of its own in that place, or another credential
 * beside it, the request is refused: nobody could say whose request it is. Its placeholder is what may stand there.
 */
import {
  AppError,
  type BoundSecret,
  hasPlaceholder,
  type SecretPlace,
  type SecretValue,
  unreachable,
} from '@space/core';
import type { AskedRequest } from '../admission.ts';
import { refusedSecret } from '../refusal.ts';

type Head = Pick<AskedRequest, 'url' | 'headers'>;

/** Headers that say who asks, wherever the secret goes. */
const CREDENTIALS: readonly string[] = ['authorization', 'proxy-authorization'];
/** What a value may hold that stands in a header. */
const IN_HEADER = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/** Throws `egress_refused`; what it gives throws `secret_unavailable` for a value that cannot stand there. */
export function planPlacement(asked: Head, bound: BoundSecret): (value: SecretValue) => Head {
  const { binding, place } = bound;
  const own = place.in === 'query' ? null : headerOf(place);
  for (const [name, value] of asked.headers) {
    const isPlace = own !== null && isSame(name, own);
    if (!isPlace && !CREDENTIALS.some((one) => isSame(name, one))) continue;
    if (isPlace && holds(value, bound.placeholder)) continue;
    throw refusedSecret(
      `The request has a header "${shown(name)}" of its own, beside which the secret of the binding "${binding}" is not placed. ` +
        'Leave it out, or send the placeholder there.',
    );
  }
  const inPlace = own === null ? [] : asked.headers.filter(([name]) => isSame(name, own));
  if (inPlace.length > 1) throw refusedSecret(`The request has ${inPlace.length} headers "${own}".`);
  const url = place.in === 'query' ? planQuery(asked.url, place.name, bound) : () => asked.url;
  const others = own === null ? asked.headers : asked.headers.filter(([name]) => !isSame(name, own));
  return (value) => ({
    url: url(value),
    headers: own === null ? others : [...others, [own, headerValue(place, value, binding)]],
  });
}

/** Throws `egress_refused` when a placeholder is in what would leave. `why` is the end of a sentence. */
export function checkNoPlaceholder({ url, headers }: Head, why: string): void {
  const found = hasPlaceholder(url)
    ? 'The address'
    : headers.some(([name, value]) => hasPlaceholder(name) || hasPlaceholder(value))
      ? 'A header'
      : null;
  if (found !== null) throw refusedSecret(`${found} of the request holds the placeholder of a secret, and ${why}.`);
}

export function isCredential(name: string, { place }: BoundSecret): boolean {
  return [...CREDENTIALS, ...(place.in === 'query' ? [] : [headerOf(place)])].some((one) => isSame(name, one));
}

function headerOf(place: Exclude<SecretPlace, { in: 'query' }>): string {
  return place.in === 'header' ? place.name : 'Authorization';
}

/** To servers that take headers for variables of their environment, `_` and `-` are the same. */
function isSame(one: string, other: string): boolean {
  const plain = (name: string) => name.toLowerCase().replaceAll('_', '-');
  return plain(one) === plain(other);
}

/** Also as the name or the password of basic authentication. */
function holds(value: string, placeholder: string): boolean {
  if (value.includes(placeholder)) return true;
  const [, encoded] = /^basic +([A-Za-z0-9+/=_-]+)$/i.exec(value.trim()) ?? [];
  return encoded !== undefined && Buffer.from(encoded, 'base64').toString('latin1').includes(placeholder);
}

function headerValue(place: SecretPlace, value: SecretValue, binding: string): string {
  const text = value.reveal();
  const made = ((): string => {
    switch (place.in) {
      case 'header':
        return `${place.prefix}${text}`;
      case 'bearer':
        return `Bearer ${text}`;
      case 'basic':
        return `Basic ${Buffer.from(`${place.username}:${text}`).toString('base64')}`;
      case 'query':
        throw new Error('a secret of the query has no header');
      default:
        return unreachable(place);
    }
  })();
  if (IN_HEADER.test(made)) return made;
  throw new AppError(
    'secret_unavailable',
    `The value for the binding "${binding}" has letters that no header may have.`,
  );
}

/** Pieces are kept as they were sent; only that of the secret is made. */
function planQuery(url: string, name: string, { binding, placeholder }: BoundSecret): (value: SecretValue) => string {
  const at = url.indexOf('?');
  const path = at < 0 ? url : url.slice(0, at);
  const pieces = at < 0 ? [] : url.slice(at + 1).split(/([&;])/);
  const own = pieces.flatMap((piece, index) => (decoded(piece.split('=', 1)[0] ?? '') === name ? [index] : []));
  const [first, ...more] = own;
  if (first !== undefined && (more.length > 0 || !decoded(pieces[first] ?? '').includes(placeholder))) {
    throw refusedSecret(
      `The query of the request has "${shown(name)}" of its own, where the binding "${binding}" places its secret. ` +
        'Leave it out, or send the placeholder there.',
    );
  }
  return (value) => {
    const piece = `${encodeURIComponent(name)}=${encodeURIComponent(value.reveal())}`;
    if (first !== undefined) return `${path}?${pieces.with(first, piece).join('')}`;
    const before = pieces.join('');
    return `${path}?${before === '' ? '' : `${before}&`}${piece}`;
  };
}

/** As servers read it that mind no errors. */
function decoded(text: string): string {
  return text
    .replaceAll('+', ' ')
    .replace(/%([0-9a-f]{2})/gi, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function shown(name: string): string {
  return name.replace(/[^\x21-\x7e]/g, '?').slice(0, 100);
}
