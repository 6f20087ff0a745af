/** Where the server listens. In clear text only on loopback: a key must not cross a network that others can read. */
import { Server as TlsServer } from 'node:tls';
import type { FastifyInstance } from 'fastify';
import { isLoopback } from './hosts.ts';

/** `host`: an address, or `localhost`. */
export type ListenOptions =
  /** 0: any free port. */
  | { readonly host: string; readonly port: number }
  /** The descriptor of a socket that listens on the address already. */
  | { readonly host: string; readonly fd: number };

/** Starts to listen; returns the base URL. */
export async function listen(app: FastifyInstance, { host, ...socket }: ListenOptions): Promise<string> {
  const encrypted = app.server instanceof TlsServer;
  if (!encrypted && !isLoopback(host)) {
    throw new Error(
      `Refusing to listen on ${host} without TLS: API keys would cross the network in clear text. ` +
        'Give a certificate and key, or listen on 127.0.0.1 behind a proxy that has them.',
    );
  }
  await app.listen({ host: host.toLowerCase() === 'localhost' ? '127.0.0.1' : host, ...socket });
  const address = app.server.address();
  if (address === null || typeof address === 'string') throw new Error('The server has no address.');
  const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `${encrypted ? 'https' : 'http'}://${name}:${address.port}`;
}
