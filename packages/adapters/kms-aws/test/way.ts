/** The way to a server, which a test can make silent or cut. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export class Way {
  silent = false;
  readonly #to: number;
  readonly #open = new Set<Socket>();
  readonly #server = createServer((socket) => this.#carry(socket));

  constructor(to: number) {
    this.#to = to;
  }

  async listen(port = 0): Promise<number> {
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    if (!this.#server.listening) return;
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Of the connections that are open too. */
  setSilent(silent: boolean): void {
    this.silent = silent;
    for (const socket of this.#open) socket.destroy();
  }

  #carry(socket: Socket): void {
    this.#open.add(socket);
    socket.on('error', () => undefined).on('close', () => this.#open.delete(socket));
    if (this.silent) return;
    const other = connect(this.#to, '127.0.0.1');
    other.on('error', () => socket.destroy()).on('close', () => socket.destroy());
    socket.on('close', () => other.destroy());
    socket.pipe(other).pipe(socket);
  }
}
