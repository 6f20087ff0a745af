/**
 * A gateway, the hosts of a small internet on loopback, and programs of a sandbox that speak to it through streams in memory.
 * Hosts have certificates of an authority of their own, which the gateway is told of.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer as createHttp, type RequestListener } from 'node:http';
import {
  type ClientHttp2Session,
  connect as connectHttp2,
  createSecureServer,
  type ServerHttp2Stream,
} from 'node:http2';
import { createServer as createHttps } from 'node:https';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Duplex, duplexPair } from 'node:stream';
import { connect as connectTls, type SecureContext, type TLSSocket } from 'node:tls';
import {
  type AllowRule,
  type BoundSecret,
  type EgressPort,
  type EgressRecord,
  type LifeId,
  type NetworkConstraints,
  type NetworkPolicy,
  NO_CONSTRAINTS,
  type OrganisationId,
  type PortConnection,
  type SandboxId,
  type SandboxRules,
} from '@space/core';
import { connectEgress, type Service, serveEgress } from '@space/link';
import { Authorities } from '../src/authorities.ts';
import { createGateway, type Gateway, type GatewayOptions } from '../src/create-gateway.ts';
import { sealed } from './sealed.ts';

export const SANDBOX = 'sbx_0000000000000001' as SandboxId;
const LIFE = 'lif_0000000000000001' as LifeId;
export const ORGANISATION = 'org_0000000000000001' as OrganisationId;
const OUTSIDE = 'org_0000000000000002' as OrganisationId;

export function allow(rule: Partial<AllowRule> & Pick<AllowRule, 'host'>): AllowRule {
  return { ports: 'all', protocol: 'http', access: 'write', path: '/', ...rule };
}

type WorldOptions = Pick<GatewayOptions, 'holdMs' | 'secretStores' | 'upstreamProxy'> & {
  readonly inProcess?: boolean;
};

export interface Opened {
  /** The program's end. */
  readonly socket: Duplex;
  /** How the gateway ended it. */
  readonly carried: Promise<unknown>;
}

export class World {
  readonly gateway: Gateway;
  /** Names of the small internet; what is not there has no address. */
  readonly names = new Map<string, readonly string[]>();
  /** Addresses that the machine has beside its own. */
  readonly machine: string[] = [];
  /** What the sandbox may use of secrets, with the next rules. */
  bound: readonly BoundSecret[] = [];

  /** Is awaited before an answer of DNS is given. */
  resolving: Promise<void> = Promise.resolve();
  /** Each name that the gateway has looked up. */
  readonly lookedUp: string[] = [];
  readonly ended = new AbortController();
  /** What the link met and nobody expected. */
  readonly unexpected: unknown[] = [];
  /** Where the gateway keeps the keys of authorities. */
  readonly ownFolder: string;
  #egress: EgressPort;
  #service: Service | null = null;
  readonly #folder: string;
  readonly #outside: Authorities;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #opened: Duplex[] = [];

  /** `inProcess`: without the link, as where all roles are one process. */
  static async open({ inProcess = false, ...more }: WorldOptions = {}): Promise<World> {
    const folder = await mkdtemp(join(tmpdir(), 'space-gateway-'));
    const outside = new Authorities(join(folder, 'outside'));
    const world = new World(folder, outside, { upstreamAuthorities: [await outside.certificateOf(OUTSIDE)], ...more });
    if (inProcess) return world;
    const socketPath = join(folder, 'link');
    const onUnexpected = (thrown: unknown): void => void world.unexpected.push(thrown);
    world.#service = await serveEgress({ egress: world.gateway, socketPath, onUnexpected });
    world.#egress = connectEgress(socketPath);
    return world;
  }

  private constructor(folder: string, outside: Authorities, options: Partial<GatewayOptions>) {
    this.#folder = folder;
    this.#outside = outside;
    this.ownFolder = join(folder, 'own');
    this.gateway = createGateway({
      folder: this.ownFolder,
      ...options,
      ownAddresses: () => this.machine,
      resolve: async (host) => {
        this.lookedUp.push(host);
        await this.resolving;
        return this.names.get(host) ?? [];
      },
    });
    this.#egress = this.gateway;
  }

  /** All names below `.test` may be private, so that they can be on loopback. */
  rules(policy: Partial<NetworkPolicy>, constraints: Partial<NetworkConstraints> = {}): SandboxRules {
    return {
      sandboxId: SANDBOX,
      organisationId: ORGANISATION,
      policy: { preset: 'none', allow: [], ask: [], deny: [], ...policy },
      constraints: { ...NO_CONSTRAINTS, privateHosts: ['*.test', '127.0.0.1'], ...constraints },
      secrets: this.bound,
    };
  }

  /** The gateway keeps a value. */
  async put(name: string, value: string): Promise<void> {
    const { publicKey } = await this.gateway.sealingKey();
    const secret = { organisationId: ORGANISATION, name };
    await this.gateway.putSecret(secret, sealed(publicKey, secret, value));
  }

  allow(policy: Partial<NetworkPolicy>, constraints: Partial<NetworkConstraints> = {}): Promise<void> {
    return this.gateway.setRules(this.rules(policy, constraints));
  }

  /** A program connects. */
  open(host: string, port: number): Opened {
    const [socket, far] = duplexPair();
    socket.on('error', () => undefined);
    const ids = { sandboxId: SANDBOX, lifeId: LIFE };
    const carried = this.#egress
      .carry({ ...ids, host, port }, lentBy(far), this.ended.signal)
      .then(
        () => null,
        (thrown: unknown) => thrown,
      )
      .finally(() => {
        // As the node does: what has not ended both ways is reset.
        if (!far.readableEnded || !far.writableFinished) far.destroy();
      });
    void carried.then(() => setImmediate(() => socket.destroy()));
    this.#opened.push(socket);
    return { socket, carried };
  }

  /** With TLS that trusts the organisation's authority only. */
  async tls(
    host: string,
    port: number,
    options: { servername?: string | null; protocols?: string[] } = {},
  ): Promise<TLSSocket> {
    const { socket } = this.open(host, port);
    const { certificatePem } = await this.gateway.trust(ORGANISATION);
    const servername = options.servername === undefined ? host : options.servername;
    const tls = connectTls({
      socket,
      ca: certificatePem,
      ...(servername === null ? { checkServerIdentity: () => undefined } : { servername }),
      ...(options.protocols === undefined ? {} : { ALPNProtocols: options.protocols }),
    });
    tls.on('error', () => undefined);
    await once(tls, 'secureConnect');
    return tls;
  }

  async http2(host: string, port: number): Promise<ClientHttp2Session> {
    const socket = await this.tls(host, port, { protocols: ['h2'] });
    const session = connectHttp2(`https://${host}:${port}`, { createConnection: () => socket });
    session.on('error', () => undefined);
    return session;
  }

  async serveHttp(name: string, listener: RequestListener): Promise<number> {
    return this.#listen(name, createHttp(listener));
  }

  async serveHttps(
    name: string,
    listener: RequestListener,
    certifiedFor = name,
    more: { onUpgrade?: (socket: Duplex) => void; host?: string; port?: number } = {},
  ): Promise<number> {
    const { onUpgrade, host, port } = more;
    const server = createHttps({ SNICallback: this.#certify(certifiedFor) }, listener);
    if (onUpgrade !== undefined) server.on('upgrade', (_incoming, socket: Duplex) => onUpgrade(socket));
    return this.#listen(name, server as unknown as Server, host, port);
  }

  async serveHttp2(name: string, onStream: (stream: ServerHttp2Stream, headers: object) => void): Promise<number> {
    const server = createSecureServer({ SNICallback: this.#certify(name) });
    server.on('stream', (stream, headers) => {
      stream.on('error', () => undefined);
      onStream(stream, headers);
    });
    server.on('session', (session) => session.on('error', () => undefined));
    return this.#listen(name, server as unknown as Server);
  }

  async serveTcp(name: string, onSocket: (socket: Socket) => void): Promise<number> {
    return this.#listen(name, createServer({ allowHalfOpen: true }, onSocket));
  }

  /** Another gateway on the same folder. */
  again(): Gateway {
    return createGateway({ folder: this.ownFolder });
  }

  async records(): Promise<readonly EgressRecord[]> {
    return (await this.gateway.takeRecords(null)).records;
  }

  /** What a name leads to, beside its server. */
  contextOf(name: string): Promise<SecureContext> {
    return this.#outside.contextFor(OUTSIDE, name);
  }

  async close(): Promise<void> {
    for (const socket of this.#opened) socket.destroy();
    await this.#service?.close();
    this.gateway.close();
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(this.#servers.map((server) => new Promise((resolve) => server.close(resolve))));
    // A key may just be written there.
    await rm(this.#folder, { recursive: true, maxRetries: 5 });
  }

  #certify(name: string) {
    return (_asked: string, done: (error: Error | null, context?: SecureContext) => void): void => {
      this.#outside.contextFor(OUTSIDE, name).then((context) => done(null, context), done);
    };
  }

  async #listen(name: string, server: Server, host = '127.0.0.1', port = 0): Promise<number> {
    server.on('connection', (socket: Socket) => {
      socket.on('error', () => undefined);
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    server.listen(port, host);
    await once(server, 'listening');
    this.#servers.push(server);
    this.names.set(name, [host]);
    return (server.address() as AddressInfo).port;
  }
}

function lentBy(stream: Duplex): PortConnection {
  stream.setMaxListeners(0);
  stream.on('error', () => undefined);
  return {
    output: stream,
    async write(bytes) {
      if (stream.destroyed) throw new Error('the guest is gone');
      if (stream.write(bytes)) return;
      const over = new AbortController();
      await Promise.race(['drain', 'close'].map((event) => once(stream, event, over))).finally(() => over.abort());
    },
    end: () => void stream.end(),
    reset: () => void stream.destroy(),
    closed: new Promise((resolve) => stream.once('close', resolve)),
  };
}

export async function text(stream: Duplex | NodeJS.ReadableStream): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(Buffer.from(part as Buffer));
  return Buffer.concat(parts).toString();
}
