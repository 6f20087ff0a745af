/**
 * Operations of GraphQL over HTTP. A document is read by whoever has a parser; here is what surrounds it. All operations of a
 * document count, also those that `operationName` does not choose: a server may choose in another way.
 */

import { asObject, hasOnly } from './plain-json.ts';
import type { Call } from './spoken.ts';

export type GraphqlKind = 'query' | 'mutation' | 'subscription';
/** The kinds of all operations of a document; null: it cannot be read. */
export type ReadDocument = (document: string) => readonly GraphqlKind[] | null;

const MAX_BATCH = 20;
const REQUEST = ['query', 'operationName', 'variables', 'extensions'] as const;
/** Those that say nothing but who asks. One that names a document (`persistedQuery`) is run instead of what is read. */
const HARMLESS_EXTENSIONS = ['clientLibrary'] as const;

/** Null: they cannot be told. */
export function callsOfGraphql(body: unknown, read: ReadDocument): readonly Call[] | null {
  const requests: readonly unknown[] = Array.isArray(body) ? body : [body];
  if (requests.length === 0 || requests.length > MAX_BATCH) return null;
  const calls: Call[] = [];
  for (const request of requests) {
    const kinds = kindsOf(asObject(request), read);
    if (kinds === null) return null;
    calls.push(...kinds.map((method) => ({ method })));
  }
  return calls;
}

/** Of a request without a body, by its query. A page of the server's, which has none, asks for nothing. */
export function callsOfGraphqlUrl(search: string, read: ReadDocument): readonly Call[] | null {
  if (search === '') return [];
  const given = parseSearch(search);
  if (given === null || !hasOnly(given, REQUEST)) return null;
  if ('extensions' in given && given['extensions'] !== '' && given['extensions'] !== '{}') return null;
  return callsOfGraphql({ query: given['query'] }, read);
}

function kindsOf(request: Readonly<Record<string, unknown>> | null, read: ReadDocument): readonly GraphqlKind[] | null {
  if (request === null || !hasOnly(request, REQUEST)) return null;
  const { query, extensions } = request;
  const extended = extensions === undefined || extensions === null ? {} : asObject(extensions);
  if (typeof query !== 'string' || extended === null || !hasOnly(extended, HARMLESS_EXTENSIONS)) return null;
  // Readers written in C end there; others pass over a mark at the beginning.
  if (query.includes('\0') || query.includes('\ufeff')) return null;
  const kinds = read(query);
  return kinds === null || kinds.length === 0 ? null : kinds;
}

/** Null: readers may differ about it. */
function parseSearch(search: string): Readonly<Record<string, string>> | null {
  if (search.includes(';')) return null;
  const given: Record<string, string> = {};
  for (const part of search.split('&')) {
    const at = part.indexOf('=');
    if (at <= 0) return null;
    try {
      const name = decodeURIComponent(part.slice(0, at));
      if (Object.hasOwn(given, name)) return null;
      given[name] = decodeURIComponent(part.slice(at + 1).replaceAll('+', ' '));
    } catch {
      return null;
    }
  }
  return given;
}
