/** Plain HTTP, of either version: what the calls that are not Connect's share. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { constants, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import { toHttpError } from './errors.ts';

const DROP_MS = 10_000;

export type EnvdRequest = IncomingMessage | Http2ServerRequest;
export type EnvdResponse = ServerResponse | Http2ServerResponse;

export function sendJson(response: EnvdResponse, status: number, body: unknown): void {
  const text = Buffer.from(JSON.stringify(body));
  response.statusCode = status;
  response.setHeader('content-type', 'application/json');
  response.setHeader('content-length', text.length);
  response.end(text);
}

/** An answer that has begun is broken off, so that nobody takes what came for the whole. */
export function sendError(request: EnvdRequest, response: EnvdResponse, thrown: unknown): void {
  if (response.headersSent) {
    resetConnection(response);
    return;
  }
  const { status, message } = toHttpError(thrown);
  sendJson(response, status, { code: status, message });
  dropRest(request, response);
}

/** A client that still sends reads the answer only when it has done; one that sends for too long is cut off. */
function dropRest(request: EnvdRequest, response: EnvdResponse): void {
  if (request.complete) return;
  request.resume();
  const timer = setTimeout(() => resetConnection(response), DROP_MS);
  request.once('close', () => clearTimeout(timer));
  request.once('end', () => clearTimeout(timer));
}

export function resetConnection(response: EnvdResponse): void {
  if ('stream' in response) response.stream?.close(constants.NGHTTP2_INTERNAL_ERROR);
  else response.destroy();
}
