/** Our sandboxes as E2B shows them. */
import type { Sandbox, SandboxMetrics } from '@space/contract';
import type { NetworkPolicy } from '@space/core';
import { toE2bId } from '../sandbox-ids.ts';
import { trafficTokenOf } from '../tokens.ts';
import { shownNetwork } from './network.ts';

/** What its in-sandbox API does is what that version of theirs does. */
export const ENVD_VERSION = '0.6.4';
/** A field that nobody reads any more, and everybody expects. */
const CLIENT_ID = 'space';
const NO_END = '9999-12-31T23:59:59.000Z';

export type E2bState = 'running' | 'paused';

/** Undefined: it is not there for them. A crashed one goes on by a connect, as a paused one does. */
const STATE_OF: Readonly<Record<Sandbox['status'], E2bState | undefined>> = {
  creating: 'running',
  running: 'running',
  out_of_space: 'running',
  resuming: 'running',
  rewinding: 'running',
  pausing: 'paused',
  paused: 'paused',
  crashed: 'paused',
  moving: undefined,
  moved: undefined,
  arriving: undefined,
  deleting: undefined,
};

export function stateOf({ status }: Pick<Sandbox, 'status'>): E2bState | undefined {
  return STATE_OF[status];
}

export function statusesOf(state: E2bState): readonly Sandbox['status'][] {
  return (Object.keys(STATE_OF) as Sandbox['status'][]).filter((status) => STATE_OF[status] === state);
}

export function startedAtOf({ startedAt, createdAt }: Sandbox): string {
  return startedAt ?? createdAt;
}

/** The answer of what makes a sandbox run. */
export function viewRunning(sandbox: Sandbox, token: string, domain: string | undefined) {
  return {
    templateID: sandbox.template,
    alias: sandbox.template,
    sandboxID: toE2bId(sandbox.id),
    clientID: CLIENT_ID,
    envdVersion: ENVD_VERSION,
    envdAccessToken: token,
    trafficAccessToken: sandbox.publicPorts ? null : trafficTokenOf(token),
    domain: domain ?? null,
  };
}

export function viewListed(sandbox: Sandbox) {
  const state = stateOf(sandbox);
  const { size, template, metadata, expiry, updatedAt } = sandbox;
  return {
    templateID: template,
    alias: template,
    sandboxID: toE2bId(sandbox.id),
    clientID: CLIENT_ID,
    startedAt: startedAtOf(sandbox),
    endAt: state === 'paused' ? updatedAt : (expiry?.at ?? NO_END),
    cpuCount: size.vcpus,
    memoryMB: size.memoryMib,
    diskSizeMB: size.diskMib,
    state,
    envdVersion: ENVD_VERSION,
    metadata,
  };
}

export function viewDetail(sandbox: Sandbox, domain: string | undefined) {
  const { runs, expiry, network, publicPorts } = sandbox;
  const { allowInternetAccess, ...shown } = shownNetwork(network as NetworkPolicy);
  return {
    ...viewListed(sandbox),
    allowInternetAccess,
    domain: domain ?? null,
    network: { ...shown, allowPublicTraffic: publicPorts },
    lifecycle: {
      autoResume: runs.wakeOnUse,
      onTimeout: (expiry?.action ?? runs.atLimit) === 'delete' ? 'kill' : 'pause',
    },
  };
}

type Sample = Pick<SandboxMetrics['history'][number], 'at' | 'memoryBytes' | 'diskBytes'> & {
  readonly cpuPercent: number | null;
};

/** Of the whole machine, as theirs are; what the guest caches cannot be told from outside. */
export function viewMetric({ size }: Sandbox, { at, cpuPercent, memoryBytes, diskBytes }: Sample) {
  return {
    timestamp: at,
    timestampUnix: Math.floor(Date.parse(at) / 1000),
    cpuCount: size.vcpus,
    cpuUsedPct: Math.round(((cpuPercent ?? 0) / size.vcpus) * 100) / 100,
    memUsed: memoryBytes,
    memTotal: size.memoryMib * 1024 * 1024,
    memCache: 0,
    diskUsed: diskBytes,
    diskTotal: size.diskMib * 1024 * 1024,
  };
}
