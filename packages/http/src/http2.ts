/**
 * HTTP/2, in front of the server that there is: each stream becomes one request of HTTP/1.1, on a pair of pipes in this process, and
 * its answer goes back as it comes. So everything behind, from limits on bodies to the way into guests, knows one protocol and
 * one meaning of a connection: to cut it is to reset that stream, and its end is the end of the stream.
 *
 *     TLS, h2 ── session ─┬─ stream ── pair of pipes ── the server's own parser ── …
 *                         └─ stream ── …
 */
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { Server } from 'node:https';
import { type Duplex, duplexPair } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import {
  KEEP_ALIVE_MS,
  MAX_CONNECTIONS_PER_ADDRESS,
  MAX_PREVIEW_HEAD_BYTES,
  MAX_STREAMS_PER_CONNECTION,
} from './limits.ts';
import { ownerOf } from './per-address.ts';

const { NGHTTP2_INTERNAL_ERROR, NGHTTP2_REFUSED_STREAM, NGHTTP2_PROTOCOL_ERROR } = constants;
/** They belong to one connection of HTTP/1.1. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade', 'http2-settings'];
const WITH_BODY = ['POST', 'PUT', 'PATCH'];

export function serveHttp2(server: Server): void {
  const front = new Http2Front(server);
  const ordinary = server.listeners('secureConnection') as ((socket: Duplex) => void)[];
  server.removeAllListeners('secureConnection');
  const take = (socket: Duplex) => {
    for (const one of ordinary) one.call(server, socket);
  };
  server.on('secureConnection', (socket: TLSSocket) => {
    if (socket.alpnProtocol === 'h2') front.serve(socket, take);
    else take(socket);
  });
  const { closeIdleConnections, closeAllConnections } = server;
  server.closeIdleConnections = () => {
    closeIdleConnections.call(server);
    front.closeIdle();
  };
  server.closeAllConnections = () => {
    closeAllConnections.call(server);
    front.closeAll();
  };
}

class Http2Front {
  readonly #server: Server;
  /** Streams that are open, of each. */
  readonly #sessions = new Map<ServerHttp2Session, { count: number }>();
  readonly #streamsOf = new Map<string, number>();

  constructor(server: Server) {
    this.#server = server;
  }

  closeIdle(): void {
    if (this.#server.listening) return;
    for (const [session, { count }] of this.#sessions) if (count === 0 && !session.closed) session.close();
  }

  closeAll(): void {
    for (const session of this.#sessions.keys()) session.destroy();
  }

  serve(socket: TLSSocket, take: (pipe: Duplex) => void): void {
    const settings = { maxConcurrentStreams: MAX_STREAMS_PER_CONNECTION, enablePush: false };
    const session = performServerHandshake(socket, { settings, maxHeaderListPairs: 256 });
    const open = { count: 0 };
    this.#sessions.set(session, open);
    session.once('close', () => this.#sessions.delete(session));
    session.on('error', () => session.destroy());
    session.setTimeout(KEEP_ALIVE_MS, () => {
      if (open.count === 0) session.close();
    });
    const owner = ownerOf(socket.remoteAddress ?? '');
    session.on('stream', (stream, headers, _flags, raw) => {
      stream.on('error', () => undefined);
      if (!this.#enter(owner)) {
        stream.close(NGHTTP2_REFUSED_STREAM);
        return;
      }
      open.count += 1;
      stream.once('close', () => {
        open.count -= 1;
        this.#leave(owner);
      });
      const head = headOf(
        headers[':method'],
        headers[':path'],
        raw as unknown as readonly string[],
        stream.endAfterHeaders,
      );
      if (head === undefined) stream.close(NGHTTP2_PROTOCOL_ERROR);
      else carry(stream, head, socket, take);
    });
  }

  /** As many as one address may have connections. */
  #enter(owner: string): boolean {
    const count = this.#streamsOf.get(owner) ?? 0;
    if (count >= MAX_CONNECTIONS_PER_ADDRESS) return false;
    this.#streamsOf.set(owner, count + 1);
    return true;
  }

  #leave(owner: string): void {
    const left = (this.#streamsOf.get(owner) ?? 1) - 1;
    if (left === 0) this.#streamsOf.delete(owner);
    else this.#streamsOf.set(owner, left);
  }
}

interface Head {
  readonly method: string;
  readonly path: string;
  readonly headers: string[];
}

/** Undefined: it is no request that there is in HTTP/1.1. */
function headOf(method: unknown, path: unknown, raw: readonly string[], isWhole: boolean): Head | undefined {
  if (typeof method !== 'string' || method === 'CONNECT' || typeof path !== 'string' || !path.startsWith('/'))
    return undefined;
  const pairs = Array.from({ length: raw.length / 2 }, (_, at) => [raw[2 * at] ?? '', raw[2 * at + 1] ?? ''] as const);
  const found = (name: string) => pairs.find(([one]) => one === name)?.[1];
  const cookies = pairs.filter(([name]) => name === 'cookie').map(([, value]) => value);
  const passed = pairs.filter(
    ([name]) => !name.startsWith(':') && !HOP_BY_HOP.includes(name) && name !== 'host' && name !== 'cookie',
  );
  const hasLength = found('content-length') !== undefined;
  const host = found(':authority') ?? found('host');
  const framing: (readonly [string, string])[] = hasLength
    ? []
    : isWhole
      ? WITH_BODY.includes(method)
        ? [['content-length', '0']]
        : []
      : [['transfer-encoding', 'chunked']];
  const all = [
    ...(host === undefined ? [] : [['host', host] as const]),
    ...passed,
    // One header here, where they may come as several.
    ...(cookies.length === 0 ? [] : [['cookie', cookies.join('; ')] as const]),
    ...framing,
    ['connection', 'close'] as const,
  ];
  return { method, path, headers: all.flat() };
}

function carry(
  stream: ServerHttp2Stream,
  { method, path, headers }: Head,
  socket: TLSSocket,
  take: (pipe: Duplex) => void,
): void {
  const [near, far] = duplexPair();
  take(asSocket(far, stream, socket));
  for (const pipe of [near, far]) pipe.on('error', () => undefined);
  // Each end of the pair ends by itself: cut here is cut there.
  far.once('close', () => near.destroy());
  near.once('close', () => far.destroy());
  const outgoing = httpRequest({
    method,
    path,
    headers,
    setHost: false,
    maxHeaderSize: MAX_PREVIEW_HEAD_BYTES,
    createConnection: () => near,
  });
  outgoing.maxHeadersCount = 0;
  stream.once('close', () => near.destroy());
  stream.once('aborted', () => near.destroy());
  const reset = () => {
    if (!stream.closed) stream.close(NGHTTP2_INTERNAL_ERROR);
  };
  outgoing.on('error', reset);
  outgoing.on('information', ({ statusCode }) => {
    if (!stream.headersSent && !stream.closed) stream.additionalHeaders({ ':status': statusCode });
  });
  outgoing.once('response', (answer) => relay(answer, stream, reset));
  sendBody(stream, outgoing);
}

/** What the server behind asks of a connection. Silence is that of the stream. */
function asSocket(far: Duplex, stream: ServerHttp2Stream, socket: TLSSocket): Duplex {
  const { remoteAddress, remotePort, remoteFamily, localAddress, localPort } = socket;
  stream.on('timeout', () => far.emit('timeout'));
  const setTimeout = (afterMs: number, onTimeout?: () => void) => {
    stream.setTimeout(afterMs);
    if (onTimeout !== undefined) far.once('timeout', onTimeout);
    return far;
  };
  const names = { remoteAddress, remotePort, remoteFamily, localAddress, localPort };
  return Object.assign(far, { encrypted: true, setTimeout, ...names });
}

function sendBody(stream: ServerHttp2Stream, outgoing: ClientRequest): void {
  stream.once('trailers', (trailers) => {
    const pairs = Object.entries(trailers).flatMap(([name, value]) =>
      [value ?? []].flat().map((one) => [name, one] as [string, string]),
    );
    if (pairs.length > 0) outgoing.addTrailers(pairs);
  });
  stream.pipe(outgoing);
}

function relay(answer: IncomingMessage, stream: ServerHttp2Stream, reset: () => void): void {
  if (stream.closed || stream.destroyed) return;
  const { statusCode = 502, rawHeaders } = answer;
  const headers: Record<string, string | number | string[]> = { ':status': statusCode };
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase();
    if (HOP_BY_HOP.includes(name) || name === 'trailer') continue;
    const value = rawHeaders[at + 1] ?? '';
    const earlier = headers[name];
    headers[name] = earlier === undefined ? value : [earlier, value].flat().map(String);
  }
  answer.on('aborted', reset).on('error', reset);
  try {
    stream.respond(headers, { waitForTrailers: true });
  } catch {
    // What stands there twice, and may not in HTTP/2.
    answer.destroy();
    reset();
    return;
  }
  stream.once('wantTrailers', () => stream.sendTrailers(answer.trailers));
  answer.pipe(stream);
}
