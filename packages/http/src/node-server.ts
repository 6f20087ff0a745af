/** The socket side: an HTTP or HTTPS server with the limits that keep slow or many connections from starving the rest. */
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import { serveHttp2 } from './http2.ts';
import { KEEP_ALIVE_MS, MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS } from './limits.ts';
import { limitPerAddress } from './per-address.ts';

export interface Tls {
  /** PEM: the chain of certificates, and the key. */
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

const OPTIONS: ServerOptions = {
  // None for the whole request: an upload may take hours. Bodies have limits of their own on time and silence.
  requestTimeout: 0,
  keepAliveTimeout: KEEP_ALIVE_MS,
  noDelay: true,
};

/** How many looks for heads that are late there are in the time that a head may take. */
const LOOKS_PER_HEAD = 3;

/** What stands beside the ordinary listener. */
export interface Takeover {
  readonly shouldUpgrade: (request: IncomingMessage) => boolean;
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
  readonly isForeign: (request: IncomingMessage) => boolean;
  readonly foreign: RequestListener;
}

export interface NodeServerOptions {
  readonly tls: Tls | undefined;
  /** For the whole head of a request. */
  readonly headersMs: number;
}

export function createNodeServer(
  ours: RequestListener,
  { tls, headersMs }: NodeServerOptions,
  takeover: Takeover,
): Server {
  const listener: RequestListener = (request, response) =>
    (takeover.isForeign(request) ? takeover.foreign : ours)(request, response);
  const options: ServerOptions = {
    ...OPTIONS,
    headersTimeout: headersMs,
    connectionsCheckingInterval: headersMs / LOOKS_PER_HEAD,
    shouldUpgradeCallback: takeover.shouldUpgrade,
  };
  const server = tls === undefined ? createServer(options, listener) : createEncrypted(options, tls, listener);
  server.on('upgrade', takeover.upgrade);
  // Whoever listens in a guest says by itself whether a body is wanted.
  server.on('checkContinue', (request, response) => {
    if (!takeover.isForeign(request)) response.writeContinue();
    listener(request, response);
  });
  server.maxConnections = MAX_CONNECTIONS;
  limitPerAddress(server, MAX_CONNECTIONS_PER_ADDRESS);
  return server;
}

function createEncrypted(options: ServerOptions, tls: Tls, listener: RequestListener): TlsServer {
  const server = createTlsServer({ ...options, ...contextOf(tls), ALPNProtocols: ['h2', 'http/1.1'] }, listener);
  serveHttp2(server);
  return server;
}

const contextOf = ({ cert, key }: Tls) => ({ cert, key, minVersion: 'TLSv1.2' }) as const;

/** For connections that begin from now on. */
export function replaceTls({ server }: { readonly server: Server }, tls: Tls): void {
  if ('setSecureContext' in server) (server as TlsServer).setSecureContext(contextOf(tls));
}
