/** The socket side: an HTTP or HTTPS server with the limits that keep slow or many connections from starving the rest. */
import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
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

export function createNodeServer(listener: RequestListener, tls: Tls | undefined): Server {
  const server =
    tls === undefined
      ? createServer(OPTIONS, listener)
      : createTlsServer({ ...OPTIONS, cert: tls.cert, key: tls.key, minVersion: 'TLSv1.2' }, listener);
  server.maxConnections = MAX_CONNECTIONS;
  return server;
}
