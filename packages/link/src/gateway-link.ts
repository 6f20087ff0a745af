/** The gateway in a process of its own. */
import { AppError, type GatewayPort } from '@space/core';
import type { Calls, KindOf, Method } from './calls.ts';
import { Dialer } from './dial.ts';
import { type Service, serveCalls } from './serve.ts';

const GATEWAY_CALLS = {
  health: 'read',
  setRules: 'read',
  dropRules: 'read',
  trust: 'read',
  sealingKey: 'read',
  putSecret: 'read',
  dropSecret: 'read',
  takeRecords: 'read',
  takeAsks: 'abortable',
  answerAsk: 'read',
  noticeSecret: 'read',
  sendNotice: 'call',
} as const satisfies { readonly [K in keyof GatewayPort]: KindOf<GatewayPort[K]> } & Calls;

interface ServeGatewayOptions {
  readonly gateway: GatewayPort;
  readonly socketPath: string;
  readonly onUnexpected: (thrown: unknown, method: string) => void;
}

export function serveGateway({ gateway, ...options }: ServeGatewayOptions): Promise<Service> {
  const calls = Object.keys(GATEWAY_CALLS) as (keyof GatewayPort)[];
  const methods: Record<string, Method> = {};
  for (const name of calls) methods[name] = (...args) => (gateway[name] as Method)(...args);
  return serveCalls({ ...options, calls: GATEWAY_CALLS, methods });
}

export function connectGateway(socketPath: string): GatewayPort {
  const absent = (cause: unknown) => new AppError('unavailable', 'The gateway does not answer.', { cause });
  const dialer = new Dialer({ socketPath, unreachable: absent, lost: absent });
  const calls = Object.entries(GATEWAY_CALLS);
  return Object.fromEntries(calls.map(([name, kind]) => [name, dialer.method(name, kind)])) as unknown as GatewayPort;
}
