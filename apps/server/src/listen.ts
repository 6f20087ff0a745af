/** The address of the API: held by the supervisor, which may have any port, and handed to the process that serves it. */
import { type AddressInfo, createServer, type Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Listen } from './config.ts';
import { portHolder } from './holders.ts';

/** The processes of a platform that was killed end within moments, and one of them has the address until then. */
const WAIT_MS = 5_000;
const LOOK_EVERY_MS = 100;

/** Learns before everything else is started that the address cannot be had. */
export async function checkAddress(address: Listen, waitMs = WAIT_MS): Promise<Listen> {
  const deadline = performance.now() + waitMs;
  for (;;) {
    try {
      const server = await listening(address);
      const { port } = server.address() as AddressInfo;
      server.close();
      return { host: address.host, port };
    } catch (thrown) {
      if (!isTaken(thrown) || performance.now() > deadline) throw await explained(address, thrown);
      await sleep(LOOK_EVERY_MS);
    }
  }
}

/**
 * A socket that listens, for a process that could not have had its port: connections wait in it until that process takes them.
 * To be closed here as soon as the process has it, in the same turn, so that none is taken here.
 */
export async function listenOn(address: Listen) {
  const server = await listening(address).catch(async (cause: unknown) => {
    throw await explained(address, cause);
  });
  const { port } = server.address() as AddressInfo;
  return {
    address: { host: address.host, port },
    fd: descriptorOf(server),
    close: () => {
      server.close();
    },
  };
}

/** Node says it nowhere else; what it may say is checked. */
function descriptorOf(server: Server): number {
  const { fd } = (server as unknown as { readonly _handle: { readonly fd?: unknown } })._handle;
  if (typeof fd !== 'number' || fd < 0)
    throw new Error('The listening socket has no descriptor that could be passed on.');
  return fd;
}

async function listening({ host, port }: Listen): Promise<Server> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: host.toLowerCase() === 'localhost' ? '127.0.0.1' : host, port }, resolve);
  });
  return server;
}

/** Looks at every process of the machine for the one that has it. */
async function explained({ host, port }: Listen, cause: unknown): Promise<Error> {
  const holder = isTaken(cause) ? await portHolder(port) : null;
  const why = isTaken(cause) ? `is in use${holder === null ? '' : ` by ${holder}`}` : 'cannot be had';
  return new Error(`The address ${host}:${port} ${why}. Choose another with --listen HOST:PORT.`, { cause });
}

function isTaken(cause: unknown): boolean {
  return (cause as NodeJS.ErrnoException).code === 'EADDRINUSE';
}
