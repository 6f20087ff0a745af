/**
 * Connections out of the guest: the agent tells of each on the control port, where no bulk holds it up, and each is carried as a
 * call of its own on the traffic port.
 */
import { isIP } from 'node:net';
import type { OutgoingConnection } from '@space/core';
import { Tunnels } from '@space/guest-proto';
import { Call } from './call.ts';
import type { Channel } from './channel.ts';
import { brokenContract } from './errors.ts';
import type { Limits } from './limits.ts';
import { carry } from './tunnel.ts';

const MAX_NAME_LETTERS = 253;
const NAME = /^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/;
/** What reads such a name may take it for an address. */
const NUMBER_AT_END = /(^|\.)(\d+|0x[0-9a-f]*)$/;

type Traffic = () => Promise<{ readonly channel: Channel; readonly limits: Limits }>;

export async function* outgoing(
  channel: Channel,
  traffic: Traffic,
  signal?: AbortSignal,
): AsyncGenerator<OutgoingConnection, void, undefined> {
  const call = new Call(channel, signal);
  try {
    for await (const { connection, host, port } of channel.serverStream(Tunnels.method.accept, {}, call.signal)) {
      if (!isHost(host) || port < 1 || port > 65_535) throw brokenContract('a connection leads nowhere');
      yield { host, port, open: async (until) => carry(await traffic(), connection, until) };
    }
  } catch (thrown) {
    throw await call.failure('accept', thrown);
  } finally {
    call.end();
  }
}

function isHost(host: string): boolean {
  if (isIP(host) !== 0) return !host.includes('%');
  return host.length <= MAX_NAME_LETTERS && NAME.test(host) && !NUMBER_AT_END.test(host);
}
