/** A platform without VMs, whose sandboxes have the ports of this machine's loopback, and short ways to reach them. */
import { createServer, type IncomingMessage, type RequestListener, request, type Server } from 'node:http';
import { connect, createServer as createTcpServer, type Socket } from 'node:net';
import { hostnameOf, type SandboxId } from '@space/core';
import type { HttpServerOptions } from '@space/http';
import { World } from '../security/world.ts';

export class PortsWorld extends World {
  readonly #servers: { close(): unknown }[] = [];
  sandboxId = '' as SandboxId;

  static override async start(more: Partial<HttpServerOptions> = {}): Promise<PortsWorld> {
    const world = await World.startAs(new PortsWorld(), more);
    world.sandboxId = (await world.ask(world.operatorKey, 'POST', '/v1/sandboxes', { name: 'box' })).id;
    return world;
  }

  get apiPort(): number {
    return Number(new URL(this.url).port);
  }

  /** An HTTP server inside the sandbox. */
  async serve(listener: RequestListener, prepare?: (server: Server) => void): Promise<number> {
    const server = createServer({ highWaterMark: 16 * 1024 }, listener);
    prepare?.(server);
    return this.#listen(server, () => server.closeAllConnections());
  }

  /** A TCP server inside the sandbox. */
  async serveTcp(serve: (socket: Socket) => void): Promise<number> {
    const sockets = new Set<Socket>();
    const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
      sockets.add(socket.on('error', () => undefined));
      serve(socket);
    });
    return this.#listen(server, () => {
      for (const socket of sockets) socket.destroy();
    });
  }

  /** What a server answers with that writes these bytes, whatever it is asked. */
  serveBytes(bytes: string): Promise<number> {
    return this.serveTcp((socket) => socket.once('data', () => socket.end(bytes)));
  }

  hostOf(port: number): string {
    return `${port}-${hostnameOf(this.sandboxId)}.localhost:${this.apiPort}`;
  }

  /** A request to a preview, with the operator's key unless other headers are given. */
  async visit(port: number, path = '/', options: VisitOptions = {}): Promise<Visited> {
    const { method = 'GET', headers = { 'x-space-key': this.operatorKey }, body } = options;
    const asked = request({
      host: '127.0.0.1',
      port: this.apiPort,
      path,
      method,
      headers: { host: this.hostOf(port), ...headers },
      agent: false,
    });
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      asked.once('response', resolve).once('error', reject);
    });
    asked.end(body);
    const answer = await answered;
    const text = (await Array.fromAsync(answer.setEncoding('utf8'))).join('');
    return { status: answer.statusCode ?? 0, headers: answer.headers, text, answer };
  }

  /** A connection to the server of the API, with these bytes sent. */
  raw(bytes: string): Socket {
    const socket = connect(this.apiPort, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(bytes);
    return socket;
  }

  share(port: number, more: object = {}) {
    return this.ask(this.operatorKey, 'POST', '/v1/sandboxes/box/shares', { port, ...more });
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    for (const server of this.#servers) server.close();
    await super[Symbol.asyncDispose]();
  }

  async #listen(server: Server | ReturnType<typeof createTcpServer>, end: () => void): Promise<number> {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    this.#servers.push({
      close: () => {
        server.close();
        end();
      },
    });
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('it listens nowhere');
    return address.port;
  }
}

interface VisitOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

interface Visited {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  readonly answer: IncomingMessage;
}

export async function until(condition: () => boolean, timeoutMs = 4_000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`Not within ${timeoutMs} ms: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export async function everything(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of socket) chunks.push(chunk);
  } catch {
    // Cut; what came counts.
  }
  return Buffer.concat(chunks).toString('latin1');
}
