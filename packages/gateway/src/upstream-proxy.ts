/**
 * An HTTP proxy that all leaves by, where a network lets nothing out but by one. It is asked for each connection by CONNECT, by the
 * name; it resolves the name, so nobody here knows the address. Names are judged as ever, and so are address literals.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type AddressClass, AppError, type EgressTarget, isAddress } from '@space/core';

const ANSWER_WITHIN_MS = 30_000;
const MAX_HEAD_BYTES = 16 * 1024;
const KEEP_ALIVE_MS = 60_000;
/** Names that are never of the public internet: of this machine, of a local network, of clouds for themselves. */
const PRIVATE_NAME =
  /(^|\.)(localhost|local|localdomain|internal|intranet|lan|home|corp|private|home\.arpa|in-addr\.arpa|ip6\.arpa)$/;

export interface UpstreamProxy {
  readonly host: string;
  readonly port: number;
  /** Of a user and a password; what `Proxy-Authorization` says. */
  readonly authorization?: string;
}

/** What can be told of where it leads: an address is what it is; of a name only its form. */
export function classesBehindProxy(
  proxy: UpstreamProxy,
  target: EgressTarget,
  classify: (address: string) => AddressClass,
): readonly AddressClass[] {
  if (target.host === proxy.host && target.port === proxy.port) return ['reserved'];
  if (isAddress(target.host)) return [classify(target.host)];
  return PRIVATE_NAME.test(target.host) || !target.host.includes('.') ? ['private'] : ['public'];
}

/** Throws `egress_failed` when it does not answer, or does not let it through. */
export async function dialThrough(proxy: UpstreamProxy, target: EgressTarget, signal: AbortSignal): Promise<Socket> {
  signal.throwIfAborted();
  const socket = connect({
    ...{ host: proxy.host, port: proxy.port, allowHalfOpen: true, noDelay: true },
    ...{ keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS },
  });
  const limits = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]);
  try {
    await once(socket, 'connect', { signal: limits });
    const named = `${target.host.includes(':') ? `[${target.host}]` : target.host}:${target.port}`;
    const who = proxy.authorization === undefined ? '' : `Proxy-Authorization: ${proxy.authorization}\r\n`;
    socket.write(`CONNECT ${named} HTTP/1.1\r\nHost: ${named}\r\n${who}\r\n`);
    const status = await answerOf(socket, limits);
    // The stream finds out in the next turn that nobody waits for it to be readable.
    await new Promise((resolve) => setImmediate(resolve));
    if (status < 200 || status > 299) throw new Error(`the proxy answers ${status}`);
    return socket;
  } catch (cause) {
    socket.on('error', () => undefined);
    socket.destroy();
    signal.throwIfAborted();
    const why =
      cause instanceof Error && cause.message.startsWith('the proxy') ? cause.message : 'the proxy does not answer';
    throw new AppError('egress_failed', `${target.host}, port ${target.port}, is not reached: ${why}.`, { cause });
  }
}

/** Its status. What comes behind its head belongs to the host, and stays to be read. */
async function answerOf(socket: Socket, signal: AbortSignal): Promise<number> {
  let head = Buffer.alloc(0);
  for (;;) {
    const bytes = socket.read() as Buffer | null;
    if (bytes === null) {
      if (socket.readableEnded || socket.destroyed) throw new Error('the proxy broke off');
      await once(socket, 'readable', { signal });
      continue;
    }
    head = Buffer.concat([head, bytes]);
    const end = head.indexOf('\r\n\r\n');
    if (end < 0 && head.length < MAX_HEAD_BYTES) continue;
    const [, status] = /^HTTP\/1\.[01] ([0-9]{3})[ \r]/.exec(head.subarray(0, 64).toString('latin1')) ?? [];
    if (end < 0 || status === undefined) throw new Error('the proxy does not answer as one');
    const rest = head.subarray(end + 4);
    if (rest.length > 0) socket.unshift(rest);
    return Number(status);
  }
}
