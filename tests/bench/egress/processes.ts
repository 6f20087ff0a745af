/**
 * The processes beside the client, each started with its role and a folder: the host, the gateway with the node's part before it,
 * and the other proxy.
 */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type LifeId, NO_CONSTRAINTS, type OrganisationId, type PortConnection, type SandboxId } from '@space/core';
import { createGateway } from '@space/gateway';
import { connectEgress, serveEgress } from '@space/link';
import { Proxy as MitmProxy } from 'http-mitm-proxy';

export const HOST = 'localhost';
/** One may have 256 connections. */
const SANDBOXES = 8;
/** Whoever came is answered then, also when not all have come. */
const TOGETHER_WITHIN_MS = 60_000;
const CHUNK = Buffer.alloc(64 * 1024, 'x');

export interface Ready {
  readonly port: number;
  /** Whose certificates the client is to trust on this way. */
  readonly ca: string;
}

const [, , role, folder = ''] = process.argv;
if (process.send !== undefined && role !== undefined) {
  const begin = { host: serveHost, gateway: serveGateway, node: serveNode, mitm: serveMitm }[role];
  if (begin === undefined) throw new Error(`there is no role "${role}"`);
  const [ready, end] = await begin();
  process.send(ready);
  await once(process, 'disconnect');
  await end();
  process.exit(0);
}

type Begun = readonly [Ready, () => Promise<void>];

async function serveHost(): Promise<Begun> {
  const [cert, key, ca] = await Promise.all(
    ['host.pem', 'host.key', 'ca.pem'].map((name) => readFile(join(folder, name), 'utf8')),
  );
  const waiting = new Map<string, ServerResponse[]>();
  const server = createServer({ cert, key, keepAliveTimeout: 600_000 }, (request, response) => {
    response.on('error', () => undefined);
    answer(request, response, waiting);
  });
  await once(server.listen(0, '127.0.0.1', 4096), 'listening');
  return [{ port: (server.address() as AddressInfo).port, ca: ca ?? '' }, async () => server.closeAllConnections()];
}

function answer({ url = '' }: IncomingMessage, response: ServerResponse, waiting: Map<string, ServerResponse[]>): void {
  const [, what, first = '', second = ''] = url.split('/');
  if (what === 'body') {
    const bytes = Number(first) * 1024 * 1024;
    response.setHeader('content-length', bytes);
    const chunks = function* () {
      for (let sent = 0; sent < bytes; sent += CHUNK.length) yield CHUNK;
    };
    pipeline(chunks, response).catch(() => undefined);
  } else if (what === 'together') {
    const all = [...(waiting.get(first) ?? []), response];
    waiting.set(first, all);
    if (all.length === Number(second)) for (const one of all) one.end('x');
    else setTimeout(() => response.end('x'), TOGETHER_WITHIN_MS).unref();
  } else {
    response.end('x'.repeat(1024));
  }
}

async function serveGateway(): Promise<Begun> {
  const gateway = createGateway({
    folder: join(folder, 'gateway'),
    upstreamAuthorities: [await readFile(join(folder, 'ca.pem'), 'utf8')],
    resolve: async () => ['127.0.0.1'],
    ownAddresses: () => [],
  });
  const organisationId = 'org_0000000000000001' as OrganisationId;
  const allow = [{ host: HOST, ports: 'all', protocol: 'http', access: 'write', path: '/' }] as const;
  for (let index = 0; index < SANDBOXES; index++) {
    await gateway.setRules({
      sandboxId: sandboxOf(index),
      organisationId,
      policy: { preset: 'none', allow, ask: [], deny: [] },
      constraints: { ...NO_CONSTRAINTS, privateHosts: [HOST] },
      secrets: [],
    });
  }
  const service = await serveEgress({
    egress: gateway,
    socketPath: join(folder, 'egress.sock'),
    onUnexpected: console.error,
  });
  const { certificatePem } = await gateway.trust(organisationId);
  return [{ port: 0, ca: certificatePem }, () => service.close()];
}

/** What the node does with what guests open, with a TCP connection in place of the guest's. */
async function serveNode(): Promise<Begun> {
  const [, , , , port] = process.argv;
  const egress = connectEgress(join(folder, 'egress.sock'));
  let opened = 0;
  const server = createTcpServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    socket.on('error', () => undefined);
    const connection: PortConnection = {
      output: socket,
      async write(bytes) {
        if (!socket.write(bytes)) await roomIn(socket);
      },
      end: () => void socket.end(),
      reset: () => void socket.destroy(),
      closed: new Promise((resolve) => socket.once('close', resolve)),
    };
    const ids = { sandboxId: sandboxOf(opened++ % SANDBOXES), lifeId: 'lif_0000000000000001' as LifeId };
    egress.carry({ ...ids, host: HOST, port: Number(port) }, connection, new AbortController().signal).then(
      () => socket.destroySoon(),
      (error: Error) => socket.destroy(error),
    );
  });
  await once(server.listen(0, '127.0.0.1', 4096), 'listening');
  return [{ port: (server.address() as AddressInfo).port, ca: '' }, async () => void server.close()];
}

function roomIn(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      for (const event of ['drain', 'close']) socket.off(event, settle);
      resolve();
    };
    for (const event of ['drain', 'close']) socket.on(event, settle);
  });
}

function sandboxOf(index: number): SandboxId {
  return `sbx_000000000000000${index + 1}` as SandboxId;
}

async function serveMitm(): Promise<Begun> {
  const proxy = new MitmProxy();
  proxy.onError((_context, error) => {
    if (error) console.error('http-mitm-proxy:', error.message);
  });
  const options = { host: '127.0.0.1', port: 0, sslCaDir: join(folder, 'mitm'), keepAlive: true, forceSNI: true };
  await new Promise<void>((resolve, reject) =>
    proxy.listen(options, (error?: Error | null) => (error ? reject(error) : resolve())),
  );
  const ca = await readFile(join(folder, 'mitm', 'certs', 'ca.pem'), 'utf8');
  return [{ port: proxy.httpPort, ca }, async () => void proxy.close()];
}
