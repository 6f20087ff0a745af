import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import {
  AppError,
  type EgressConnection,
  type EgressPort,
  type GatewayPort,
  type LentGuest,
  normaliseHost,
  type SandboxId,
  type SandboxRules,
} from '@space/core';
import { Authorities } from './authorities.ts';
import { type CarryTools, carry } from './carry.ts';
import { trustedContext } from './dial.ts';
import { GuestStream } from './guest-stream.ts';
import { HeldAskRoom } from './held-asks.ts';
import { Http1Front } from './http1.ts';
import { LookedInto } from './look-into.ts';
import { Notices } from './notices.ts';
import { OpenConnections } from './open-connections.ts';
import { addressesOfMachine, classifierOf } from './own-addresses.ts';
import { Passage } from './passage.ts';
import { Recorder } from './recorder.ts';
import { mismatch } from './refusal.ts';
import { createResolve, type Resolve } from './resolver.ts';
import { LocalSecrets } from './secrets/local-secrets.ts';
import { type SecretStores, Secrets } from './secrets/secrets.ts';
import { Sessions } from './sessions.ts';
import { FileSpool } from './spool.ts';
import type { UpstreamProxy } from './upstream-proxy.ts';

/** A connection that carries nothing for so long is closed. */
const IDLE_MS = 60 * 60 * 1000;
const LOOK_FOR_IDLE_MS = 60_000;
/** Less than programs commonly wait for an answer. */
const HOLD_MS = 30_000;

export interface GatewayOptions {
  /** Its own, for the keys of authorities. */
  readonly folder: string;
  /** Authorities beside the machine's that hosts may have certificates of, as PEM. */
  readonly upstreamAuthorities?: readonly string[];
  /** Addresses of DNS servers; left out: as the machine is configured. */
  readonly dnsServers?: readonly string[];
  /** How long a request is held for a reviewer before the program is told to ask again; default 30 s. */
  readonly holdMs?: number;
  /** Where values of secrets may come from beside the gateway itself, by name. */
  readonly secretStores?: SecretStores;
  /** A proxy that all leaves by, which resolves the names. */
  readonly upstreamProxy?: UpstreamProxy;
  /** How names are resolved, for tests. */
  readonly resolve?: Resolve;
  /** The machine's own addresses, for tests. */
  readonly ownAddresses?: () => readonly string[];
}

export interface Gateway extends GatewayPort, EgressPort {
  /** Cuts what is open. */
  close(): void;
}

export function createGateway(options: GatewayOptions): Gateway {
  const { folder, upstreamAuthorities, dnsServers, resolve = createResolve(dnsServers) } = options;
  const classify = classifierOf(options.ownAddresses ?? addressesOfMachine);
  const instance = randomBytes(16).toString('hex');
  const rules = new Map<SandboxId, SandboxRules>();
  const open = new OpenConnections();
  const spool = new FileSpool(join(folder, 'records.spool'));
  const recorder = new Recorder(spool);
  const lookedInto = new LookedInto();
  const asks = new HeldAskRoom(instance, options.holdMs ?? HOLD_MS);
  const authorities = new Authorities(folder);
  const notices = new Notices(folder);
  const http1 = new Http1Front();
  const local = new LocalSecrets(folder);
  const secrets = new Secrets({ local, stores: options.secretStores ?? {} });
  const sessions = new Sessions();
  let tools: CarryTools | null = null;
  /** Made when they are needed: whom the gateway believes is costly to find out. */
  const carryTools = (): CarryTools => {
    const proxy = options.upstreamProxy ?? null;
    tools ??= { authorities, http1, resolve, classify, trusted: trustedContext(upstreamAuthorities), sessions, proxy };
    return tools;
  };
  const idle = setInterval(() => open.cutIdle(performance.now() - IDLE_MS), LOOK_FOR_IDLE_MS);
  idle.unref();

  return {
    health: async () => ({ instance, rules: rules.size, pinsAddresses: options.upstreamProxy === undefined }),
    async setRules(given) {
      rules.set(given.sandboxId, given);
      open.judgeAgain(given.sandboxId);
    },
    async dropRules(sandboxId) {
      rules.delete(sandboxId);
      open.judgeAgain(sandboxId);
    },
    trust: async (organisationId) => ({ certificatePem: await authorities.certificateOf(organisationId) }),
    sealingKey: async () => ({ publicKey: await local.publicKey() }),
    async putSecret(name, sealed) {
      await local.putSealed(name, sealed);
      secrets.forget(name.organisationId);
    },
    async dropSecret(name) {
      await local.drop(name);
      secrets.forget(name.organisationId);
    },
    takeRecords: async (behind) => recorder.take(behind),
    takeAsks: (behind, signal) => asks.asks(behind, signal),
    answerAsk: async (answer) => asks.answer(answer),
    noticeSecret: (organisationId, url) => notices.secretOf(organisationId, url),
    sendNotice: (notice) => notices.send(notice, carryTools()),
    async carry(connection: EgressConnection, connected: LentGuest, signal: AbortSignal): Promise<void> {
      const host = normaliseHost(connection.host);
      if (host === null || connection.port < 1 || connection.port > 65_535) {
        throw mismatch('The destination has no name that is possible.');
      }
      const guest = new GuestStream(connected);
      guest.on('error', () => undefined);
      const passage = new Passage({
        connection,
        target: { host, port: connection.port },
        guest,
        rules: () => rules.get(connection.sandboxId) ?? null,
        record: (record) => recorder.add(record, rules.get(connection.sandboxId)?.organisationId ?? null),
        secrets,
        lookedInto,
        asks,
      });
      await carryOpen(open, { passage, tools: carryTools(), signal });
    },
    close() {
      clearInterval(idle);
      open.cutAll();
      spool.close();
    },
  };
}

interface Carried {
  readonly passage: Passage;
  readonly tools: CarryTools;
  /** Aborts when its life ends. */
  readonly signal: AbortSignal;
}

async function carryOpen(open: OpenConnections, { passage, tools, signal }: Carried): Promise<void> {
  const leave = open.add(passage);
  const cut = (): void => passage.cut(signal.reason);
  signal.addEventListener('abort', cut, { once: true });
  try {
    if (signal.aborted) cut();
    passage.signal.throwIfAborted();
    await carry(passage, tools);
    passage.signal.throwIfAborted();
  } catch (thrown) {
    if (passage.signal.aborted) throw passage.signal.reason;
    if (thrown instanceof AppError) {
      if (thrown.code !== 'egress_refused') passage.recordFailure(thrown);
      throw thrown;
    }
    throw new AppError('egress_failed', 'The connection broke off.', { cause: thrown });
  } finally {
    signal.removeEventListener('abort', cut);
    leave();
  }
}
