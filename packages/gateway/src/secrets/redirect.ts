/**
 * Redirects of a host that got a secret in the query, and sends it back in the address that it leads to. To the same host the placeholder
 * stands there, so that a program that follows gets the secret again; to another one it is masked as everywhere.
 */
import type { BoundSecret, EgressTarget, SecretValue } from '@space/core';
import type { Header } from '../admission.ts';

export interface Redirected {
  readonly bound: BoundSecret;
  readonly value: SecretValue;
  readonly target: EgressTarget;
}

export function withPlaceholder([name, text]: Header, { bound, value, target }: Redirected): Header {
  const { place, placeholder } = bound;
  if (place.in !== 'query' || name.toLowerCase() !== 'location' || !leadsTo(text, target)) return [name, text];
  const at = text.indexOf('?');
  if (at < 0) return [name, text];
  const [query = '', ...fragment] = text.slice(at + 1).split('#');
  const pieces = query.split('&').map((piece) => {
    const [key = '', ...rest] = piece.split('=');
    return plain(key) === place.name && plain(rest.join('=')) === value.reveal() ? `${key}=${placeholder}` : piece;
  });
  return [name, [`${text.slice(0, at)}?${pieces.join('&')}`, ...fragment].join('#')];
}

/** A path, or an address of the very host and port that the connection is to. */
function leadsTo(text: string, { host, port }: EgressTarget): boolean {
  const base = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const url = URL.parse(text, base);
  return url !== null && url.origin === new URL(base).origin;
}

function plain(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}
