/**
 * An agent for tests: the contract served by Connect's own server over the agent's side of the link. What it answers is the
 * test's choice, so that it can lie; requests that arrive are kept.
 */
import * as http2 from 'node:http2';
import { type Duplex, duplexPair } from 'node:stream';
import type { ServiceImpl } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import type { Guest, GuestPort } from '@space/core';
import { Files, Machine, Processes, Tunnels } from '@space/guest-proto';
import { onTestFinished, vi } from 'vitest';
import { type ConnectOptions, connectGuest } from '../src/index.ts';
import { AgentLink } from './agent-link.ts';

export interface Answers {
  readonly machine?: Partial<ServiceImpl<typeof Machine>>;
  readonly processes?: Partial<ServiceImpl<typeof Processes>>;
  readonly files?: Partial<ServiceImpl<typeof Files>>;
}

export interface FakeAgent {
  readonly guest: Guest;
  /** Connections that the host made, by port. */
  readonly connected: GuestPort[];
  readonly links: AgentLink[];
  /** Cuts every connection, as the end of the VM does. */
  cut(): void;
}

export async function fakeAgent(
  answers: Answers,
  options: ConnectOptions & { burst?: boolean } = {},
): Promise<FakeAgent> {
  const handler = connectNodeAdapter({
    routes: (router) => {
      router.service(Machine, answers.machine ?? {});
      router.service(Processes, answers.processes ?? {});
      router.service(Files, answers.files ?? {});
      // Of a service that it lacks, as of a call, an agent says that it is not implemented.
      router.service(Tunnels, {});
    },
  });
  // It reports each stream that a caller ended early.
  vi.spyOn(console, 'error').mockImplementation(() => {});
  const server = http2.createServer(handler);
  server.on('sessionError', () => {});
  const connected: GuestPort[] = [];
  const links: AgentLink[] = [];
  const connect = async (port: GuestPort): Promise<Duplex> => {
    const [host, raw] = duplexPair();
    connected.push(port);
    links.push(new AgentLink(raw, (stream) => server.emit('connection', stream), options));
    return host;
  };
  const cut = (): void => {
    for (const link of links) link.raw.destroy();
  };
  const guest = await connectGuest(connect, options);
  onTestFinished(async () => {
    await guest.close();
    cut();
  });
  return { guest, connected, links, cut };
}
