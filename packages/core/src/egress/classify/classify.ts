/**
 * What a request asks for, in each protocol that a rule says its host may speak. Pure: whoever calls it has read the body ahead,
 * where `wantsBody` says that it is needed.
 */

import { asksForPush, callsOfGit, PUSHES } from './git.ts';
import { callsOfGraphql, callsOfGraphqlUrl, type ReadDocument } from './graphql.ts';
import { callsOfJsonRpc, callsOfMcp } from './json-rpc.ts';
import { asObject, parsePlainJson } from './plain-json.ts';
import type { Call, Spoken, SpokenCalls } from './spoken.ts';

/** What is longer is not read, and so is a write. */
export const MAX_CLASSIFIED_BYTES = 256 * 1024;

const READS: readonly string[] = ['GET', 'HEAD', 'OPTIONS'];

export interface ReadableRequest {
  readonly method: string;
  readonly path: string;
  /** What stands behind `?`, as it was sent. */
  readonly search: string;
  /** Names in any case, as they were sent. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly hasBody: boolean;
}

/** Whether anything can be told of its body: JSON, as it is, and no longer than is read. */
export function wantsBody(speaks: readonly Spoken[], request: ReadableRequest): boolean {
  return speaks.some((one) => one !== 'git') && hasPlainJson(request);
}

/** `body`: null when it was not read, or not to its end. */
export function classify(
  speaks: readonly Spoken[],
  request: ReadableRequest,
  body: Uint8Array | null,
  readDocument: ReadDocument,
): readonly SpokenCalls[] {
  const { method, hasBody, path, search } = request;
  if (READS.includes(method) && !hasBody && asksForPush(path, search)) {
    // Also where no rule says that the host speaks git: it only makes a write of what was a read.
    return [...new Set<Spoken>([...speaks, 'git'])].map((one) => ({
      speaks: one,
      calls: one === 'git' ? PUSHES : null,
    }));
  }
  const json = body === null || !hasPlainJson(request) ? undefined : parsePlainJson(body);
  return speaks.map((one) => ({ speaks: one, calls: callsOf(one, request, json, readDocument) }));
}

function callsOf(
  speaks: Spoken,
  request: ReadableRequest,
  json: unknown,
  readDocument: ReadDocument,
): readonly Call[] | null {
  const { method, path, search, hasBody } = request;
  if (READS.includes(method) && !hasBody) {
    return speaks === 'graphql' ? callsOfGraphqlUrl(search, readDocument) : [];
  }
  // How a session of MCP ends.
  if (method === 'DELETE' && !hasBody && speaks === 'mcp') return [{ method }];
  if (method !== 'POST') return null;
  if (speaks === 'git') return callsOfGit(path, search, single(request, 'content-type'));
  if (json === undefined) return null;
  switch (speaks) {
    case 'mcp':
      return agreesWithHeaders(request, json) ? callsOfMcp(json) : null;
    case 'json-rpc':
      return callsOfJsonRpc(json);
    case 'graphql':
      // Servers take a document in the URL for the one that is meant.
      return search === '' ? callsOfGraphql(json, readDocument) : null;
  }
}

/** In one way only: servers that take headers for variables of their environment read `content_type` as well. */
function hasPlainJson(request: ReadableRequest): boolean {
  const type = single(request, 'content-type');
  const isJson = type !== null && /^application\/json(?:\s*;\s*charset="?utf-8"?)?\s*$/i.test(type);
  return request.method === 'POST' && isJson && valuesOf(request, 'content-encoding').length === 0;
}

/** Newer clients of MCP say in headers what they call, for whoever only reads those. */
function agreesWithHeaders(request: ReadableRequest, json: unknown): boolean {
  const message = asObject(json);
  const params = asObject(message?.['params']);
  const saysSame = (header: string, said: unknown): boolean => {
    const values = valuesOf(request, header);
    return values.length === 0 || (values.length === 1 && values[0] === said);
  };
  const named = params?.['name'] ?? params?.['uri'];
  return saysSame('mcp-method', message?.['method']) && saysSame('mcp-name', named);
}

function single(request: ReadableRequest, name: string): string | null {
  const values = valuesOf(request, name);
  return values.length === 1 ? (values[0] ?? null) : null;
}

function valuesOf({ headers }: ReadableRequest, wanted: string): readonly string[] {
  return headers.filter(([name]) => name.toLowerCase().replaceAll('_', '-') === wanted).map(([, value]) => value);
}
