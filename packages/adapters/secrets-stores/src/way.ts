/**
 * How stores are reached: as the hosts are that sandboxes reach, by the proxy that all leaves by where there is one, and with the
 * same authorities. A store on this machine is asked directly.
 */
import { Agent } from 'node:http';
import { type AgentOptions, type RequestOptions, Agent as TlsAgent } from 'node:https';
import type { Socket } from 'node:net';
import { getCACertificates } from 'node:tls';
import type { EgressTarget } from '@space/core';

/** Makes a connection to a host, in bounded time. */
export type Dial = (target: EgressTarget, signal: AbortSignal) => Promise<Socket>;

export interface WayOptions {
  /** Left out: by the names and ways of this machine. */
  readonly dial?: Dial;
  /** Authorities that stores may have certificates of, in PEM, beside those of the machine. */
  readonly authorities?: readonly string[];
}

export interface Way {
  readonly httpAgent: Agent;
  readonly httpsAgent: TlsAgent;
}

/** Of a connection that is made, or that says nothing. */
const SILENT_MS = 10_000;
const ON_THIS_MACHINE: readonly string[] = ['localhost', '127.0.0.1', '::1', '[::1]'];

/** One connection for each question: they are few, and one that is idle would keep a place of the proxy's. */
export function wayTo({ dial, authorities = [] }: WayOptions): Way {
  const ca = [...new Set([...getCACertificates('bundled'), ...getCACertificates('system'), ...authorities])];
  // Verified whatever the environment of the process says.
  const tls = { ca, timeout: SILENT_MS, minVersion: 'TLSv1.2', rejectUnauthorized: true } as const;
  return {
    // In clear text on this machine only.
    httpAgent: new Agent({ timeout: SILENT_MS }),
    httpsAgent: dial === undefined ? new TlsAgent(tls) : new DialledAgent(tls, dial),
  };
}

type Create = TlsAgent['createConnection'];

class DialledAgent extends TlsAgent {
  readonly #dial: Dial;

  constructor(options: AgentOptions, dial: Dial) {
    super(options);
    this.#dial = dial;
  }

  override createConnection(options: Parameters<Create>[0], done: Parameters<Create>[1]): ReturnType<Create> {
    const { host, port } = options;
    if (host == null || port == null || ON_THIS_MACHINE.includes(host)) return super.createConnection(options, done);
    void this.#dial({ host, port: Number(port) }, AbortSignal.timeout(SILENT_MS)).then(
      // TLS over it; what an agent is given for a request says nothing of that.
      (socket) => done?.(null, super.createConnection({ ...options, socket } as RequestOptions) as Socket),
      (thrown: Error) => done?.(thrown, undefined as never),
    );
    return undefined;
  }
}
