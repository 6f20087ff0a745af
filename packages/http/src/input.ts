/**
 * From a request to the input of a use-case. The query is decoded here and not by the framework, whose parser keeps what it
 * cannot decode: a path must never be another one than the client meant.
 */
import type { IncomingMessage } from 'node:http';
import { IDEMPOTENCY_HEADER_NAME, MAX_JSON_BODY_BYTES, ProtocolError, type Route } from '@space/contract';
import { AppError } from '@space/core';
import { readBody } from './body.ts';
import { explainIssue, type Issue } from './issues.ts';
import { JSON_BODY_TIMEOUT_MS } from './limits.ts';

interface Parser {
  safeParse(value: unknown): { success: true; data: unknown } | { success: false; error: { issues: Issue[] } };
}

/** Path parameters, query and JSON body, validated, as one object. */
export async function readInput(route: Route, request: IncomingMessage, params: unknown): Promise<object> {
  const url = request.url ?? '';
  const start = url.indexOf('?');
  return {
    ...parsePart(route.params, params, 'path'),
    ...parsePart(route.query, parseQuery(start === -1 ? '' : url.slice(start + 1)), 'query'),
    ...(route.body.kind === 'json' ? parsePart(route.body.schema, await readJson(request), 'body') : {}),
  };
}

export function parsePart(schema: Parser, value: unknown, place: string): object {
  const result = schema.safeParse(value);
  if (result.success) return result.data as object;
  const [issue] = result.error.issues;
  const { field, text } = issue === undefined ? { field: '', text: 'is not valid' } : explainIssue(issue, value);
  const where = field === '' ? `The ${place}` : `${place} field ${field}`;
  throw new AppError('bad_request', {
    // A rule over several fields is a sentence of its own.
    detail: `${where}${/^(must|is|does) /.test(text) ? '' : ':'} ${text}.`.slice(0, 1000),
    facts: { place, ...(field === '' ? {} : { field: field.slice(0, 200) }) },
  });
}

export function parseQuery(query: string): Record<string, string> {
  const parameters = new Map<string, string>();
  for (const pair of query === '' ? [] : query.split('&')) {
    const equals = pair.indexOf('=');
    const name = decode(equals === -1 ? pair : pair.slice(0, equals));
    if (parameters.has(name)) throw new AppError('bad_request', `query: ${name.slice(0, 100)} is given twice`);
    parameters.set(name, equals === -1 ? '' : decode(pair.slice(equals + 1)));
  }
  return Object.fromEntries(parameters);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part.replaceAll('+', ' '));
  } catch (error) {
    throw new AppError('bad_request', 'query: not valid percent-encoded UTF-8', { cause: error });
  }
}

/** The JSON value in the body; that of an absent body is `{}`, so that calls without fields need none. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  if (!hasBody(request)) return {};
  checkJsonType(request);
  const bytes = await readWhole(request);
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes), refuseProto);
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError('bad_request', 'body: not valid JSON in UTF-8', { cause: error });
  }
}

function checkJsonType(request: IncomingMessage): void {
  const type = request.headers['content-type'] ?? '';
  if (!/^application\/json\s*(;\s*charset="?utf-8"?\s*)?$/i.test(type)) {
    throw new ProtocolError('unsupported_media_type', 'The body must be application/json in UTF-8.');
  }
}

async function readWhole(request: IncomingMessage): Promise<Uint8Array> {
  const tooLarge = () =>
    new AppError('payload_too_large', {
      detail: `A JSON body can have ${MAX_JSON_BODY_BYTES} bytes.`,
      facts: { maxBytes: MAX_JSON_BODY_BYTES },
    });
  if (Number(request.headers['content-length'] ?? 0) > MAX_JSON_BODY_BYTES) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of readBody(request, { totalMs: JSON_BODY_TIMEOUT_MS })) {
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_JSON_BODY_BYTES) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** A key that object code would take for the prototype is nobody's field. */
function refuseProto(key: string, value: unknown): unknown {
  if (key === '__proto__') throw new AppError('bad_request', 'body: __proto__ cannot be a field');
  return value;
}

function hasBody(request: IncomingMessage): boolean {
  return request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;
}

/** Refuses bodies that the route would not look at, and encodings that it would not undo. */
export function checkBodyIsWanted(route: Route, request: IncomingMessage): void {
  if (route.body.kind === 'none' && hasBody(request)) throw new AppError('bad_request', 'body: this call takes none');
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') {
    throw new ProtocolError('unsupported_media_type', 'Content-Encoding must be identity.');
  }
}

/** Throws `bad_request` for one that is none. */
export function idempotencyKeyIn({ headersDistinct }: IncomingMessage): string | undefined {
  const given = headersDistinct[IDEMPOTENCY_HEADER_NAME.toLowerCase()];
  if (given === undefined) return undefined;
  const [key] = given;
  if (given.length === 1 && key !== undefined && /^[\x21-\x7e]{1,255}$/.test(key)) return key;
  throw new AppError('bad_request', `${IDEMPOTENCY_HEADER_NAME} must be 1 to 255 visible ASCII characters, once.`);
}
