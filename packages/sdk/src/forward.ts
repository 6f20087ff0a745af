/**
 * A port of this machine that leads into a sandbox. Each connection is one HTTP upgrade on a connection of its own; each side
 * ends by itself, and what is cut on one side is cut on the other. Node's modules are asked for when they are needed, so that the
 * rest of the client runs without.
 */
import type { IncomingMessage } from 'node:http';
import type { Server, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { fromProblem, invalidAnswer, misused, SpaceError, unreachable } from './errors.ts';
import { refuseUnknown } from './options.ts';

export interface ForwardOptions {
  /** Default: any free one. */
  readonly localPort?: number;
  /** Address to listen on; who can reach it reaches the port in the sandbox. Default: 127.0.0.1. */
  readonly localHost?: string;
  /** Told of each connection that could not be made, e.g. because nothing listens in the sandbox. */
  readonly onError?: (error: SpaceError) => void;
  /** Ends it. */
  readonly signal?: AbortSignal;
}

export interface Forwarded extends AsyncDisposable {
  readonly localHost: string;
  readonly localPort: number;
  /** Ends its connections, too. */
  close(): Promise<void>;
}

/** How to ask for the connection. */
export interface Upgrade {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

export async function forwardPort(upgrade: Upgrade, options: ForwardOptions): Promise<Forwarded> {
  const { localPort = 0, localHost = '127.0.0.1', onError, signal, ...unknown } = options;
  refuseUnknown(unknown);
  signal?.throwIfAborted();
  const net = builtin('node:net');
  const sockets = new Set<Duplex>();
  const server = net.createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (socket) => {
    track(sockets, socket);
    socket.on('error', () => undefined);
    connect(upgrade, socket).then(
      (remote) => {
        track(sockets, remote);
        join(socket, remote);
      },
      (error: SpaceError) => {
        socket.resetAndDestroy();
        onError?.(error);
      },
    );
  });
  await listen(server, localPort, localHost);
  const address = server.address();
  const close = async () => {
    signal?.removeEventListener('abort', onAbort);
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  const onAbort = () => void close();
  signal?.addEventListener('abort', onAbort);
  if (signal?.aborted) await close();
  signal?.throwIfAborted();
  const port = typeof address === 'object' && address !== null ? address.port : localPort;
  return { localHost, localPort: port, close, [Symbol.asyncDispose]: close };
}

function connect({ url, headers }: Upgrade, socket: Socket): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const { request } = url.protocol === 'https:' ? builtin('node:https') : builtin('node:http');
    const asked = request(url, { headers: { ...headers, connection: 'Upgrade', upgrade: 'tcp' }, agent: false });
    socket.once('close', () => asked.destroy());
    asked.once('upgrade', (_answer, remote, first) => {
      if (first.length > 0) remote.unshift(first);
      resolve(remote);
    });
    asked.once('response', (answer) => void problemOf(answer).then(reject));
    asked.once('error', (error) => reject(unreachable(url.origin, error)));
    asked.end();
  });
}

async function problemOf(answer: IncomingMessage): Promise<SpaceError> {
  const status = answer.statusCode ?? 0;
  try {
    let body = '';
    for await (const chunk of answer.setEncoding('utf8')) body += chunk;
    return fromProblem(JSON.parse(body));
  } catch (error) {
    return error instanceof SpaceError ? error : invalidAnswer('The port was refused without a reason.', status, error);
  }
}

function join(local: Socket, remote: Duplex): void {
  for (const [from, to] of [
    [local, remote],
    [remote, local],
  ] as const) {
    from.on('error', () => reset(to));
    from.once('close', () => {
      if (!from.readableEnded || !from.writableFinished) reset(to);
    });
    from.pipe(to);
  }
}

function reset(stream: Duplex | Socket): void {
  // Node resets no socket that has begun to end.
  if ('resetAndDestroy' in stream && !stream.destroyed && !stream.writableEnded) stream.resetAndDestroy();
  else stream.destroy();
}

function track(sockets: Set<Duplex>, socket: Duplex): void {
  sockets.add(socket);
  socket.once('close', () => sockets.delete(socket));
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      const why = 'code' in error && error.code === 'EADDRINUSE' ? 'is in use' : 'cannot be had';
      const nextStep = 'Choose another localPort or localHost, or leave it out.';
      reject(misused(`The local address ${host}:${port} ${why}.`, nextStep, error));
    });
    server.listen(port, host, () => resolve());
  });
}

interface Builtins {
  readonly 'node:net': typeof import('node:net');
  readonly 'node:http': typeof import('node:http');
  readonly 'node:https': typeof import('node:https');
}

function builtin<N extends keyof Builtins>(name: N): Builtins[N] {
  const found = globalThis.process?.getBuiltinModule?.(name);
  if (found === undefined) throw misused('Ports are forwarded by Node only.', 'Run it on Node 20.16 or later.');
  return found as Builtins[N];
}
