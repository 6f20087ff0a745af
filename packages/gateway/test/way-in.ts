/** A way in for the real client of git. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { World } from './world.ts';

/** Leads programs of the machine through the gateway: what connects to the same port of another loopback address. */
export class WayIn implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(world: World, host: string, port: number, address: string): Promise<WayIn> {
    const server = createServer((socket) => {
      way.#sockets.add(socket);
      const { socket: through } = world.open(host, port);
      socket.on('error', () => through.destroy());
      through.on('error', () => socket.destroy());
      through.on('close', () => socket.destroy());
      socket.on('close', () => {
        way.#sockets.delete(socket);
        through.destroy();
      });
      socket.pipe(through).pipe(socket);
    });
    const way = new WayIn(server);
    server.listen(port, address);
    await once(server, 'listening');
    return way;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
