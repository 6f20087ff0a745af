/**
 * Connections to a guest port. QEMU serves one at a time, moves bytes only while the vCPUs run (so none can tear a
 * snapshot), and has a flaw: when it writes into a socket whose other end is gone already, or loads a device state that
 * was saved in the middle of a write, it blocks the port, and the next connection starts dead. Only the orderly end of a
 * connection frees it. Hence:
 *
 * - our end is closed first, and what QEMU still writes is read and dropped until it closes its own;
 * - before each connection comes one that ends at once. It also mends what a killed process or a restore left behind.
 */
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { connectUnix } from './sockets.ts';

/** A stopped VM does not close its end before it runs. */
const LINGER_LIMIT_MS = 60_000;

/** Returns when the connection is queued; a stopped VM takes it when it runs. An earlier one must have been destroyed. */
export async function connectPort(path: string): Promise<Duplex> {
  endInOrder(await connectUnix(path));
  return new PortStream(await connectUnix(path));
}

class PortStream extends Duplex {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    socket.on('error', (cause) => this.destroy(cause));
    socket.on('close', () => this.push(null));
    socket.on('data', (chunk) => {
      if (!this.destroyed && !this.push(chunk)) socket.pause();
    });
    socket.pause();
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    endInOrder(this.#socket);
    done(error);
  }
}

function endInOrder(socket: Socket): void {
  socket.on('error', () => {});
  socket.resume();
  socket.end();
  const limit = setTimeout(() => socket.destroy(), LINGER_LIMIT_MS).unref();
  socket.once('close', () => clearTimeout(limit));
}
