/** A server on a free port over the use-cases in memory; every answer is checked against the contract. */
import { connect, type Socket } from 'node:net';
import { DEFAULT_ORGANISATION, DEFAULT_PROJECT, newId } from '@space/core';
import type { FastifyInstance } from 'fastify';
import { createHttpServer, createLogger, type HttpServerOptions, type Identity, listen } from '../src/index.ts';
import { MemoryUseCases } from './memory-use-cases.ts';

export const KEY = 'space_test_key';
export const IDENTITY: Identity = {
  principal: {
    apiKeyId: newId('apiKey', { bytes: (count) => new Uint8Array(count) }),
    organisationId: DEFAULT_ORGANISATION,
    operator: true,
    onlyProject: null,
    roles: ['admin'],
  },
  projectId: DEFAULT_PROJECT,
};

export class World implements AsyncDisposable {
  readonly useCases = new MemoryUseCases();
  readonly breaches: string[] = [];
  readonly log: string[] = [];
  app!: FastifyInstance;
  url = '';

  static async start(options: Partial<HttpServerOptions> = {}): Promise<World> {
    const world = new World();
    world.app = createHttpServer({
      useCases: world.useCases,
      authenticate: (token) => (token === KEY ? IDENTITY : null),
      logger: createLogger({ level: 'info', destination: { write: (line) => void world.log.push(line) } }),
      openShare: async () => null,
      version: '0.1.0',
      onBreach: (breach) => world.breaches.push(breach),
      ...options,
    });
    world.url = await listen(world.app, { host: '127.0.0.1', port: 0 });
    return world;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** A call with the key. */
  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(this.url + path, { ...init, headers: { authorization: `Bearer ${KEY}`, ...init.headers } });
  }

  post(path: string, body: unknown): Promise<Response> {
    return this.fetch(path, {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
  }

  /** The path of a new sandbox. */
  async sandbox(body: object = {}): Promise<string> {
    const response = await this.post('/v1/sandboxes', body);
    const { id } = (await response.json()) as { id: string };
    return `/v1/sandboxes/${id}`;
  }

  /** Sends bytes as they are and returns the socket. */
  raw(bytes: string): Socket {
    const socket = connect(this.port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(bytes);
    return socket;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.app.server.closeAllConnections();
    await this.app.close();
    if (this.breaches.length > 0) throw new Error(`The contract was broken: ${this.breaches.join('\n')}`);
  }
}

/** Everything that the server sends until it closes the connection. */
export async function wholeAnswer(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** Waits until the condition holds, at most `timeoutMs`. */
export async function until(condition: () => boolean, timeoutMs = 5000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`Not within ${timeoutMs} ms: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export async function eventsOf(response: Response): Promise<{ type: string; [field: string]: unknown }[]> {
  const lines = (await response.text()).split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line));
}
