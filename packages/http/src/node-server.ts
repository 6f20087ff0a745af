/** The socket side: an HTTP or HTTPS server with the limits that keep slow or many connections from starving the rest. */
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import { HEADERS_TIMEOUT_MS, KEEP_ALIVE_MS, MAX_CONNECTIONS } from './limits.ts';

export interface Tls {
  /** PEM: the chain of certificates, and the key. */
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

const OPTIONS: ServerOptions = {
  headersTimeout: HEADERS_TIMEOUT_MS,
  // None for the whole request: an upload may take hours. Bodies have limits of their own on time and silence.
  requestTimeout: 0,
  keepAliveTimeout: KEEP_ALIVE_MS,
  connectionsCheckingInterval: 5_000,
  noDelay: true,
};

/** What stands beside the ordinary listener. */
export interface Takeover {
  readonly shouldUpgrade: (request: IncomingMessage) => boolean;
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
  readonly isForeign: (request: IncomingMessage) => boolean;
  readonly foreign: RequestListener;
}

export function createNodeServer(ours: RequestListener, tls: Tls | undefined, takeover: Takeover): Server {
  const listener: RequestListener = (request, response) =>
    (takeover.isForeign(request) ? takeover.foreign : ours)(request, response);
  const options: ServerOptions = { ...OPTIONS, shouldUpgradeCallback: takeover.shouldUpgrade };
  const server =
    tls === undefined
      ? createServer(options, listener)
      : createTlsServer({ ...options, cert: tls.cert, key: tls.key, minVersion: 'TLSv1.2' }, listener);
  server.on('upgrade', takeover.upgrade);
  // Whoever listens in a guest says by itself whether a body is wanted.
  server.on('checkContinue', (request, response) => {
    if (!takeover.isForeign(request)) response.writeContinue();
    listener(request, response);
  });
  server.maxConnections = MAX_CONNECTIONS;
  return server;
}
