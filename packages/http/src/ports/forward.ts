/**
 * One HTTP request into a guest, and its answer out of it, both as they come: nothing is kept back, and each side waits for the
 * other. A connection into the guest carries one request, so that no answer can be taken for another's.
 *
 * What the guest sends is parsed by Node's strict parser; what that does not take is `port_broken`. An answer that is cut
 * after its head is cut towards the client, too: it must not look whole.
 */
import { type ClientRequest, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError, asAppError, type PortConnection } from '@space/core';
import { MAX_PREVIEW_HEAD_BYTES } from '../limits.ts';
import { requestHeaders, responseHeaders, type Way } from './headers.ts';
import { PortStream } from './port-stream.ts';

export interface Forwarded {
  readonly request: IncomingMessage;
  readonly way: Way;
  /** What the guest sees as the target of the request; starts with a slash. */
  readonly target: string;
  readonly connect: () => Promise<PortConnection>;
}

/** Settles when the answer is over. Throws while it can still be answered otherwise. */
export async function forward(call: Forwarded, response: ServerResponse): Promise<void> {
  const { request } = call;
  const { stream, outgoing } = await begin(call, false);
  response.once('close', () => stream.destroy());
  // A guest that answers before it has read the whole body may close its side; the answer counts.
  request.on('error', () => stream.destroy());
  const answered = answer(outgoing, stream, response);
  sendBody(request, outgoing);
  const head = await answered;
  await relay(head, call.way, response, stream);
}

/** For a request that would go on as a WebSocket. `socket` is the client's, `head` what it has sent already. */
export async function forwardUpgrade(
  call: Forwarded,
  { socket, head, response }: { readonly socket: Duplex; readonly head: Buffer; readonly response: ServerResponse },
): Promise<void> {
  const { stream, outgoing } = await begin(call, true);
  socket.once('close', () => stream.destroy());
  const accepted = new Promise<{ answer: IncomingMessage; first: Buffer }>((resolve) => {
    outgoing.once('upgrade', (upgraded: IncomingMessage, _: Duplex, first: Buffer) => {
      resolve({ answer: upgraded, first });
    });
  });
  const refused = answer(outgoing, stream, response, true);
  outgoing.end();
  const outcome = await Promise.race([accepted, refused.then((refusal) => ({ refusal }))]);
  if ('refusal' in outcome) return relay(outcome.refusal, call.way, response, stream);
  refused.catch(() => undefined);
  const { answer: upgraded, first } = outcome;
  if (upgraded.headers.upgrade?.toLowerCase() !== 'websocket') {
    stream.destroy();
    throw new AppError('port_broken', 'The server in the sandbox went on to another protocol than was asked for.');
  }
  response.statusCode = 101;
  response.detachSocket(socket as Parameters<ServerResponse['detachSocket']>[0]);
  const headers = [...responseHeaders(upgraded, call.way), 'Connection', 'Upgrade', 'Upgrade', 'websocket'];
  socket.write(switchingHead(headers));
  if (first.length > 0) socket.write(first);
  if (head.length > 0) stream.write(head);
  await join(socket, stream);
}

/** Both ways until both have ended. An error of one is the end of the other. */
export function join(socket: Duplex, stream: Duplex): Promise<void> {
  return new Promise((resolve) => {
    for (const [from, to] of [
      [socket, stream],
      [stream, socket],
    ] as const) {
      from.on('error', () => to.destroy());
      from.once('close', () => {
        if (!from.readableEnded || !from.writableFinished) to.destroy();
      });
      from.pipe(to);
    }
    stream.once('close', resolve);
  });
}

export function switchingHead(headers: readonly string[]): string {
  const lines = Array.from({ length: headers.length / 2 }, (_, at) => `${headers[2 * at]}: ${headers[2 * at + 1]}\r\n`);
  return `HTTP/1.1 101 Switching Protocols\r\n${lines.join('')}\r\n`;
}

async function begin(call: Forwarded, upgrade: boolean) {
  const { request, way, target, connect } = call;
  // Before anything is opened: a request that makes no sense wakes nobody.
  const headers = requestHeaders(request, way, upgrade);
  const stream = new PortStream(await connect());
  const outgoing = httpRequest({
    method: request.method ?? 'GET',
    path: target,
    headers,
    setHost: false,
    maxHeaderSize: MAX_PREVIEW_HEAD_BYTES,
    insecureHTTPParser: false,
    createConnection: () => stream,
  });
  outgoing.maxHeadersCount = 0;
  return { stream, outgoing };
}

function sendBody(request: IncomingMessage, outgoing: ClientRequest): void {
  request.once('end', () => passTrailers(request, outgoing));
  request.pipe(outgoing);
}

function passTrailers(from: IncomingMessage, to: ClientRequest | ServerResponse): void {
  const trailers = Object.entries(from.trailersDistinct).flatMap(([name, values = []]) =>
    values.map((value) => [name, value] as [string, string]),
  );
  if (trailers.length > 0) to.addTrailers(trailers);
}

/** The head of the guest's answer. */
function answer(
  outgoing: ClientRequest,
  stream: PortStream,
  response: ServerResponse,
  mayUpgrade = false,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    outgoing.once('response', resolve);
    outgoing.on('continue', () => {
      if (!response.headersSent) response.writeContinue();
    });
    if (!mayUpgrade) {
      outgoing.once('upgrade', () => {
        stream.destroy();
        reject(new AppError('port_broken', 'The server in the sandbox went on to another protocol unasked.'));
      });
    }
    outgoing.on('error', (error) => reject(explained(error, stream)));
    outgoing.once('close', () => reject(explained(new Error('the connection was closed'), stream)));
  });
}

function explained(error: Error, stream: PortStream): AppError {
  const cause = stream.errored ?? error;
  if (cause instanceof AppError) return asAppError(cause);
  return new AppError('port_broken', 'The server in the sandbox gave no HTTP answer.', { cause: error });
}

function relay(head: IncomingMessage, way: Way, response: ServerResponse, stream: PortStream): Promise<void> {
  return new Promise((resolve) => {
    response.once('close', resolve);
    const cut = () => response.destroy();
    // First of all its listeners: an answer without a length would else seem to have ended.
    stream.prependListener('error', cut);
    head.on('error', cut).on('aborted', cut);
    head.once('end', () => passTrailers(head, response));
    for (const name of response.getHeaderNames()) if (head.headers[name] !== undefined) response.removeHeader(name);
    response.writeHead(head.statusCode ?? 502, head.statusMessage, responseHeaders(head, way));
    response.flushHeaders();
    head.pipe(response);
  });
}
