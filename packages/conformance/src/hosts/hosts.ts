/**
 * The hosts of a small internet on loopback, which write down all that reaches them: HTTP in clear text and by TLS, HTTP/2, other TCP,
 * and the name server that knows them. Whoever is to be proven asks that name server and believes that authority.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer as createHttp } from 'node:http';
import { createSecureServer, type IncomingHttpHeaders } from 'node:http2';
import { createServer as createHttps } from 'node:https';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Heard, NOTHING_HEARD, type Places } from '../places.ts';
import { Authority } from './certificates.ts';
import { Dns } from './dns.ts';
import { makeRepository } from './git.ts';
import { answerHttp, answerStream, answerUpgrade } from './web.ts';
import { DOMAIN, zone } from './zone.ts';

/** Of what is kept until somebody asks for it. */
const MAX_HEARD_LETTERS = 4 * 1024 * 1024;

type Ports = Readonly<Record<'http' | 'https' | 'h2' | 'echo' | 'greeter', number>>;

export class Hosts implements AsyncDisposable {
  /** Of the authority that has certified them. */
  readonly authorityPem: string;
  readonly places: Places;
  readonly #listening: Listening;
  readonly #dns: Dns;

  private constructor(authorityPem: string, listening: Listening, dns: Dns, ports: Ports) {
    this.authorityPem = authorityPem;
    this.#listening = listening;
    this.#dns = dns;
    const { https, ...own } = ports;
    this.places = { open: `open.${DOMAIN}`, shut: `shut.${DOMAIN}`, https, own: { domain: DOMAIN, ...own } };
  }

  static async open(): Promise<Hosts> {
    const listening = new Listening();
    try {
      const repositories = await mkdtemp(join(tmpdir(), 'space-conformance-git-'));
      listening.onClose(() => rm(repositories, { recursive: true }));
      await makeRepository(join(repositories, 'space.git'));
      const answers = answerHttp(repositories);
      const dns = await Dns.listen(zone, (name) => listening.hearName(name));
      listening.onClose(() => dns.close());
      const authority = await Authority.make();
      const { certificatePem: cert, keyPem: key } = await authority.certify([`*.${DOMAIN}`]);
      const ports = {
        http: await listening.add(createHttp(answers).on('upgrade', answerUpgrade), 'connection'),
        https: await listening.add(
          createHttps({ cert, key }, answers).on('upgrade', answerUpgrade),
          'secureConnection',
        ),
        h2: await listening.add(createH2({ cert, key }, listening), null),
        echo: await listening.add(
          createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket)),
          'connection',
        ),
        greeter: await listening.add(
          createServer((socket) => void socket.write('SSH-2.0-conformance\r\n')),
          'connection',
        ),
      };
      return new Hosts(authority.certificatePem, listening, dns, ports);
    } catch (thrown) {
      await listening.close();
      throw thrown;
    }
  }

  /** As the gateway is told of it: address and port. */
  get dnsServer(): string {
    return this.#dns.address;
  }

  /** What was heard since it was asked last. */
  take(): Heard {
    return this.#listening.take();
  }

  /** That are open now. */
  get connections(): number {
    return this.#listening.open;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#listening.close();
  }
}

function createH2(certified: { cert: string; key: string }, listening: Listening) {
  const server = createSecureServer(certified);
  server.on('stream', (stream, headers: IncomingHttpHeaders) => {
    listening.hear(`${headers[':method']} ${headers[':authority']} ${headers[':path']}\n`);
    answerStream(stream, headers);
  });
  server.on('session', (session) => session.on('error', () => undefined));
  return server;
}

class Listening {
  #heard: Heard = NOTHING_HEARD;
  readonly #sockets = new Set<Socket>();
  readonly #closers: (() => unknown)[] = [];

  /** `clear`: the event with streams of clear text. Null: somebody else hears what comes. */
  async add(server: object, clear: 'connection' | 'secureConnection' | null): Promise<number> {
    const listener = server as Server;
    listener.on('connection', (socket: Socket) => {
      this.#heard = { ...this.#heard, connections: this.#heard.connections + 1 };
      this.#sockets.add(socket.on('error', () => undefined));
      socket.once('close', () => this.#sockets.delete(socket));
    });
    // Behind the listeners of the server, which then reads by events as well, and not past them.
    if (clear !== null) {
      listener.on(clear, (stream: Socket) => {
        stream.on('error', () => undefined).on('data', (bytes: Buffer) => this.hear(bytes.toString('latin1')));
      });
    }
    listener.on('tlsClientError', () => undefined).on('clientError', () => undefined);
    await once(listener.listen(0, '127.0.0.1'), 'listening');
    this.onClose(() => new Promise((resolve) => listener.close(resolve)));
    return (listener.address() as AddressInfo).port;
  }

  get open(): number {
    return this.#sockets.size;
  }

  onClose(closer: () => unknown): void {
    this.#closers.push(closer);
  }

  hear(text: string): void {
    const all = this.#heard.text + text;
    this.#heard = { ...this.#heard, text: all.slice(0, MAX_HEARD_LETTERS) };
  }

  hearName(name: string): void {
    this.#heard = { ...this.#heard, names: [...this.#heard.names, name].slice(-1_000) };
  }

  take(): Heard {
    const heard = this.#heard;
    this.#heard = NOTHING_HEARD;
    return heard;
  }

  async close(): Promise<void> {
    const closed = this.#closers.map((close) => close());
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(closed);
  }
}
