/** Unix stream sockets, both ways, with limits. */
import { connect, type Socket } from 'node:net';

/** Longest path that fits a socket's address. */
export const MAX_SOCKET_PATH = 107;

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

/** All that the other side sends until it ends. Rejects when it sends too much, or takes too long. */
export function collect(socket: Socket, limits: { maxBytes: number; timeoutMs: number }): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const chunks: Buffer[] = [];
  let size = 0;
  const timer = setTimeout(() => reject(new Error('The VMM did not send its state in time')), limits.timeoutMs);
  socket.on('data', (chunk) => {
    size += chunk.length;
    chunks.push(chunk);
    if (size > limits.maxBytes) socket.destroy(new Error(`The VMM sent more than ${limits.maxBytes} bytes of state`));
  });
  socket.on('end', () => resolve(Buffer.concat(chunks)));
  socket.on('error', reject);
  socket.on('close', () => reject(new Error('The connection was closed')));
  return promise.finally(() => clearTimeout(timer));
}
