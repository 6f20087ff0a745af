/** A host of git repositories over HTTPS: git's own server program, behind a few lines of CGI; and a way in for the real client. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { World } from './world.ts';

/** Serves the repositories in a folder, pushes as well. */
export function gitBackend(root: string) {
  return (incoming: IncomingMessage, answer: ServerResponse): void => {
    const { pathname, search } = new URL(incoming.url ?? '/', 'http://x');
    const { headers } = incoming;
    const backend = spawn('git', ['http-backend'], {
      env: {
        PATH: process.env['PATH'],
        GIT_PROJECT_ROOT: root,
        GIT_HTTP_EXPORT_ALL: '1',
        REMOTE_USER: 'tester',
        REQUEST_METHOD: incoming.method,
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        CONTENT_TYPE: headers['content-type'],
        HTTP_CONTENT_ENCODING: headers['content-encoding'],
        HTTP_GIT_PROTOCOL: `${headers['git-protocol'] ?? ''}`,
      },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    backend.stdin.on('error', () => undefined);
    incoming.pipe(backend.stdin);
    const parts: Buffer[] = [];
    backend.stdout.on('data', (part: Buffer) => parts.push(part));
    backend.on('close', () => answerCgi(Buffer.concat(parts), answer));
  };
}

function answerCgi(output: Buffer, answer: ServerResponse): void {
  const end = output.indexOf('\r\n\r\n');
  for (const line of output.subarray(0, end).toString().split('\r\n')) {
    const [, name = '', value = ''] = /^([^:]+): *(.*)$/.exec(line) ?? [];
    if (name.toLowerCase() === 'status') answer.statusCode = Number.parseInt(value, 10);
    else if (name !== '') answer.setHeader(name, value);
  }
  answer.end(output.subarray(end + 4));
}

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
