/** The way out of sandboxes, for the node: a socket of the gateway's that control has no access to, a line for each connection. */
import { AppError, type EgressPort, parseId } from '@space/core';
import type { Calls, KindOf } from './calls.ts';
import { Dialer } from './dial.ts';
import { type Service, serveCalls } from './serve.ts';

const EGRESS_CALLS = { carry: 'lend' } as const satisfies {
  readonly [K in keyof EgressPort]: KindOf<EgressPort[K]>;
} & Calls;

/** Of all sandboxes of a machine, two for each: the line, and the bytes beside it. */
const MAX_CONNECTIONS = 32_768;
const MAX_HOST_LETTERS = 253;

interface ServeEgressOptions {
  readonly egress: EgressPort;
  /** In a folder that only the owner and the node's group may enter. */
  readonly socketPath: string;
  readonly onUnexpected: (thrown: unknown, method: string) => void;
}

export function serveEgress({ egress, ...options }: ServeEgressOptions): Promise<Service> {
  return serveCalls({
    ...options,
    calls: EGRESS_CALLS,
    methods: { carry: egress.carry.bind(egress) },
    check: (_, [connection]) => checkConnection(connection),
    maxLines: MAX_CONNECTIONS,
  });
}

export function connectEgress(socketPath: string): EgressPort {
  const dialer = new Dialer({
    socketPath,
    unreachable: (cause) => new AppError('unavailable', 'The gateway does not answer.', { cause }),
    lost: (cause) => new AppError('unavailable', 'The gateway has cut the connection.', { cause }),
  });
  return { carry: dialer.method('carry', EGRESS_CALLS.carry) as EgressPort['carry'] };
}

/** The node is believed; its shape is checked all the same, since what decides over a way out should not guess. */
function checkConnection(connection: unknown): void {
  const { sandboxId, lifeId, host, port } = (connection ?? {}) as Record<string, unknown>;
  const isHost = typeof host === 'string' && host.length > 0 && host.length <= MAX_HOST_LETTERS;
  const isPort = typeof port === 'number' && Number.isInteger(port) && port > 0 && port < 65_536;
  const isLife = typeof lifeId === 'string' && parseId('life', lifeId) !== undefined;
  const isSandbox = typeof sandboxId === 'string' && parseId('sandbox', sandboxId) !== undefined;
  if (!isHost || !isPort || !isLife || !isSandbox) throw new AppError('bad_request', 'That is no connection.');
}
