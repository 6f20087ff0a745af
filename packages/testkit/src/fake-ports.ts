/** The ports of a fake guest are those of this machine's loopback: so tests listen there with real servers. */
import { connect, type Socket } from 'node:net';
import { AppError, type PortConnection } from '@space/core';

/** The connections of one life. */
export class FakePorts {
  readonly #open = new Set<LoopbackConnection>();

  get count(): number {
    return this.#open.size;
  }

  async open(port: number, signal?: AbortSignal): Promise<PortConnection> {
    signal?.throwIfAborted();
    const socket = await dial(port, '127.0.0.1').catch(() => dial(port, '::1'));
    const connection = new LoopbackConnection(socket, signal);
    this.#open.add(connection);
    void connection.closed.then(() => this.#open.delete(connection));
    return connection;
  }

  /** The life has ended, and every connection with it, for that reason. */
  lose(reason: AppError): void {
    for (const connection of this.#open) connection.lose(reason);
  }
}

function dial(port: number, host: string): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = connect({ port, host, allowHalfOpen: true, noDelay: true });
  socket.once('connect', () => resolve(socket));
  socket.once('error', () => reject(new AppError('port_refused', `nothing listens on port ${port}`)));
  return promise;
}

class LoopbackConnection implements PortConnection {
  readonly output: AsyncIterable<Uint8Array>;
  readonly closed: Promise<void>;
  readonly #socket: Socket;
  #reason: unknown;

  constructor(socket: Socket, signal?: AbortSignal) {
    this.#socket = socket;
    socket.on('error', (error) => {
      this.#reason ??= new AppError('link_lost', 'ECONNRESET: connection', { cause: error });
    });
    const onAbort = () => this.lose(signal?.reason);
    signal?.addEventListener('abort', onAbort);
    this.closed = new Promise((resolve) => {
      socket.once('close', () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      });
    });
    this.output = this.#read();
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (this.#socket.destroyed) throw this.#end();
    if (this.#socket.write(bytes)) return;
    const drained = Promise.withResolvers<void>();
    this.#socket.once('drain', drained.resolve);
    await Promise.race([drained.promise, this.closed]);
    if (this.#socket.destroyed) throw this.#end();
  }

  end(): void {
    this.#socket.end();
  }

  reset(): void {
    // Node resets no socket that has begun to end.
    if (this.#socket.writableEnded) this.#socket.destroy();
    else if (!this.#socket.destroyed) this.#socket.resetAndDestroy();
  }

  lose(reason: unknown): void {
    this.#reason ??= reason;
    this.reset();
  }

  async *#read(): AsyncGenerator<Uint8Array, void> {
    let whole = false;
    try {
      for await (const piece of this.#socket.iterator({ destroyOnReturn: false })) yield piece;
      whole = this.#socket.readableEnded;
    } catch {
      // What ended it is told below.
    } finally {
      if (!whole) this.reset();
    }
    if (!whole) throw this.#end();
  }

  #end(): unknown {
    return this.#reason ?? new AppError('link_lost', 'The connection is gone.');
  }
}
