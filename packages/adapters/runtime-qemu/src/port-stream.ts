/**
 * A connection to a guest port, which moves bytes only while the vCPUs run.
 *
 * QEMU takes bytes from a port's socket, and gives more, also while the VM stands still, and each one changes a queue in
 * guest memory. Between the save of the device state and the capture of the memory that would tear the snapshot: the
 * queue in memory would be ahead of the device, and the restore refused. So both directions are held while the VM is
 * stopped; a close waits too.
 *
 * Closing has an order: our end first, then QEMU's. When QEMU writes into a socket that is closed already, it blocks the
 * port, and the next connection starts dead (`clearPort`).
 */
import { connect, type Socket } from 'node:net';
import { Duplex } from 'node:stream';

const READ_BYTES = 64 * 1024;
const CLOSE_LIMIT_MS = 1_000;

export class PortStream extends Duplex {
  readonly #socket: Socket;
  /** Resolves when QEMU has closed its end. */
  readonly disconnected: Promise<void>;
  #held: boolean;
  #write: (() => void) | null = null;

  private constructor(socket: Socket, held: boolean) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    this.#held = held;
    this.disconnected = new Promise((resolve) => socket.once('close', () => resolve()));
    void this.disconnected.then(() => this.push(null));
    socket.on('error', (cause) => this.destroy(cause));
  }

  static open(path: string, held: boolean): Promise<PortStream> {
    return new Promise((resolve, reject) => {
      let stream: PortStream | null = null;
      // With a buffer of its own the socket stops reading at once when it is paused, not some buffers later.
      const onread = {
        buffer: Buffer.allocUnsafe(READ_BYTES),
        callback: (count: number, buffer: Uint8Array): boolean => stream?.receive(buffer.subarray(0, count)) ?? false,
      };
      const socket = connect({ path, onread });
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        stream = new PortStream(socket, held);
        if (held) socket.pause();
        resolve(stream);
      });
    });
  }

  hold(): void {
    this.#held = true;
    this.#socket.pause();
  }

  letGo(): void {
    this.#held = false;
    if (this.destroyed) {
      this.#closeInOrder();
      return;
    }
    this.#socket.resume();
    this.#write?.();
    this.#write = null;
  }

  /** Bytes of the guest; false to pause. What nobody wants any more is still taken, so that QEMU can write it. */
  receive(bytes: Uint8Array): boolean {
    if (this.destroyed || this.readableEnded) return true;
    return this.push(Buffer.from(bytes)) && !this.#held;
  }

  override _read(): void {
    if (!this.#held) this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    const write = (): void => void this.#socket.write(chunk, done);
    if (this.#held) this.#write = write;
    else write();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.#held) this.#closeInOrder();
    done(error);
  }

  #closeInOrder(): void {
    this.#socket.resume();
    this.#socket.end();
    const limit = setTimeout(() => this.#socket.destroy(), CLOSE_LIMIT_MS);
    void this.disconnected.then(() => clearTimeout(limit));
  }
}

/**
 * Frees a port that QEMU has blocked: after a write that found no reader (a host process was killed, or the device state
 * was saved in the middle of one), only the end of a connection makes it write again. Harmless when it is not blocked.
 */
export async function clearPort(path: string): Promise<void> {
  const stream = await PortStream.open(path, false);
  stream.destroy();
  await stream.disconnected;
}
