/** Connections out: to addresses that were judged, and for TLS only to who proves to be the host. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import {
  checkServerIdentity,
  connect as connectTls,
  createSecureContext,
  getCACertificates,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import { AppError, type EgressTarget, isAddress } from '@space/core';

const CONNECT_WITHIN_MS = 15_000;
const HANDSHAKE_WITHIN_MS = 15_000;
const KEEP_ALIVE_MS = 60_000;

/** Whom the gateway believes: the machine's authorities, and those that are named. Costly to make, so made once. */
export function trustedContext(authorities: readonly string[] = []): SecureContext {
  const ca = [...new Set([...getCACertificates('bundled'), ...getCACertificates('system'), ...authorities])];
  return createSecureContext({ ca, minVersion: 'TLSv1.2' });
}

/** To the first of the addresses that answers, and to no other. */
export async function dial(
  { host, port }: EgressTarget,
  addresses: readonly string[],
  signal: AbortSignal,
): Promise<Socket> {
  signal.throwIfAborted();
  const pinned = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  const socket = connect({
    host: 'pinned.invalid',
    port,
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
    autoSelectFamily: true,
    lookup: (_name, _options, done) => done(null, pinned),
  });
  try {
    await once(socket, 'connect', { signal: AbortSignal.any([signal, AbortSignal.timeout(CONNECT_WITHIN_MS)]) });
    return socket;
  } catch (cause) {
    socket.on('error', () => undefined);
    socket.destroy();
    signal.throwIfAborted();
    throw new AppError('egress_failed', `Nothing answers at ${host}, port ${port}.`, { cause });
  }
}

/** TLS over the connection, with a certificate of the host that is verified. Offers the protocols, and says which was taken. */
export async function secure(
  socket: Socket,
  { host }: EgressTarget,
  options: { readonly trusted: SecureContext; readonly protocols: readonly string[]; readonly signal: AbortSignal },
): Promise<TLSSocket> {
  const { trusted, protocols, signal } = options;
  const tls = connectTls({
    socket,
    secureContext: trusted,
    // Whatever the environment of the process says.
    rejectUnauthorized: true,
    ...(isAddress(host) ? {} : { servername: host }),
    ...(protocols.length > 0 ? { ALPNProtocols: [...protocols] } : {}),
    checkServerIdentity: (_name, certificate) => checkServerIdentity(host, certificate),
  });
  try {
    const limits = AbortSignal.any([signal, AbortSignal.timeout(HANDSHAKE_WITHIN_MS)]);
    await once(tls, 'secureConnect', { signal: limits });
    return tls;
  } catch (cause) {
    tls.on('error', () => undefined);
    tls.destroy();
    signal.throwIfAborted();
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new AppError('egress_failed', `${host} did not prove who it is: ${why.slice(0, 300)}.`, { cause });
  }
}
