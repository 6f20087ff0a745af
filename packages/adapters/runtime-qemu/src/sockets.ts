/** Unix stream sockets, both ways, with limits. */
import { chmod, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isErrno } from './process-identity.ts';

/** Longest path that fits a socket's address. */
export const MAX_SOCKET_PATH = 107;
const RETRY_MS = 2;

export function connectUnix(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

/** Connects as soon as somebody listens there; `goOn` throws to end the wait. */
export async function connectWhenListening(path: string, goOn: () => void): Promise<Socket> {
  for (;;) {
    goOn();
    try {
      return await connectUnix(path);
    } catch (thrown) {
      if (!isErrno(thrown, 'ENOENT') && !isErrno(thrown, 'ECONNREFUSED')) throw thrown;
    }
    await sleep(RETRY_MS);
  }
}

export interface Collector {
  /** All that one client sends until it closes. Rejects when it sends too much, or nobody comes in time. */
  readonly bytes: Promise<Buffer>;
  close(): Promise<void>;
}

/** Listens for one client of any user and collects what it sends. The folder must not be writable by that client. */
export async function collectOnce(path: string, limits: { maxBytes: number; timeoutMs: number }): Promise<Collector> {
  await rm(path, { force: true });
  const server = createServer();
  const outcome = Promise.withResolvers<Buffer>();
  outcome.promise.catch(() => {});
  const timer = setTimeout(() => outcome.reject(new Error('The VMM did not send its state in time')), limits.timeoutMs);
  server.maxConnections = 1;
  server.on('connection', (socket) => collect(socket, limits.maxBytes, outcome));
  server.on('error', outcome.reject);
  await Promise.race([new Promise<void>((resolve) => server.listen(path, resolve)), outcome.promise]);
  await chmod(path, 0o666);
  return {
    bytes: outcome.promise,
    async close() {
      clearTimeout(timer);
      outcome.reject(new Error('Closed'));
      server.close();
      await rm(path, { force: true });
    },
  };
}

function collect(socket: Socket, maxBytes: number, outcome: PromiseWithResolvers<Buffer>): void {
  const chunks: Buffer[] = [];
  let size = 0;
  socket.on('data', (chunk) => {
    size += chunk.length;
    chunks.push(chunk);
    if (size > maxBytes) socket.destroy(new Error(`The VMM sent more than ${maxBytes} bytes of state`));
  });
  socket.on('end', () => outcome.resolve(Buffer.concat(chunks)));
  socket.on('error', outcome.reject);
  const abandon = (): void => void socket.destroy();
  outcome.promise.then(abandon, abandon);
}
