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
import type { SessionsOf } from './sessions.ts';
import { within } from './until.ts';

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
    await within(CONNECT_WITHIN_MS, signal, (limit) => once(socket, 'connect', { signal: limit }));
    return socket;
  } catch (cause) {
    socket.on('error', () => undefined);
    socket.destroy();
    signal.throwIfAborted();
    throw new AppError('egress_failed', `Nothing answers at ${host}, port ${port}.`, { cause });
  }
}

interface Secured {
  readonly trusted: SecureContext;
  readonly protocols: readonly string[];
  /** With this host, of whom it is dialled for; null: none are kept. */
  readonly sessions: SessionsOf | null;
  readonly signal: AbortSignal;
}

/** TLS over the connection, with a certificate of the host that is verified. Offers the protocols, and says which was taken. */
export async function secure(socket: Socket, { host }: EgressTarget, options: Secured): Promise<TLSSocket> {
  const { trusted, protocols, sessions, signal } = options;
  const session = sessions?.find() ?? null;
  const tls = connectTls({
    socket,
    secureContext: trusted,
    // Whatever the environment of the process says.
    rejectUnauthorized: true,
    ...(isAddress(host) ? {} : { servername: host }),
    ...(protocols.length > 0 ? { ALPNProtocols: [...protocols] } : {}),
    checkServerIdentity: (_name, certificate) => checkServerIdentity(host, certificate),
    ...(session === null ? {} : { session: session.ticket }),
  });
  // It may come before it is known who the host is, and is good for nothing then.
  let latest: Buffer | null = null;
  const keep = (): void => {
    if (latest === null || !tls.authorized) return;
    const provedAtMs = session !== null && tls.isSessionReused() ? session.provedAtMs : startedAtMs;
    sessions?.keep({ ticket: latest, provedAtMs });
  };
  const startedAtMs = performance.now();
  tls.on('session', (ticket) => {
    latest = ticket;
    keep();
  });
  try {
    await within(HANDSHAKE_WITHIN_MS, signal, (limit) => once(tls, 'secureConnect', { signal: limit }));
    keep();
    return tls;
  } catch (cause) {
    tls.on('error', () => undefined);
    tls.destroy();
    signal.throwIfAborted();
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new AppError('egress_failed', `${host} did not prove who it is: ${why.slice(0, 300)}.`, { cause });
  }
}
