/** Who listens on a port of this machine, as far as we may see: for the message that says that an address is in use. */
import { readdir, readFile, readlink } from 'node:fs/promises';
import { basename } from 'node:path';

const LISTENING = '0A';

/** E.g. `process 4711 (node)`; null when it cannot be seen. */
export async function portHolder(port: number): Promise<string | null> {
  const sockets = new Set<string>();
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    for (const inode of listenersOf(await readFile(table, 'utf8').catch(() => ''), port))
      sockets.add(`socket:[${inode}]`);
  }
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const fds = await readdir(`/proc/${pid}/fd`).catch(() => []);
    for (const fd of fds) {
      const target = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => '');
      if (sockets.has(target)) return `process ${pid} (${await nameOf(pid)})`;
    }
  }
  return null;
}

/** Its program and the first of its arguments; whoever started it chose them, so nothing else than plain text is shown. */
async function nameOf(pid: string): Promise<string> {
  const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  const [program = '', first = ''] = commandLine.split('\0');
  return `${basename(program)} ${first}`
    .replaceAll(/[^\x20-\x7e]/g, '?')
    .trim()
    .slice(0, 60);
}

/** Inodes of the sockets that listen on the port, from a table of the kernel. */
function listenersOf(table: string, port: number): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return table.split('\n').flatMap((line) => {
    const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
    return local.endsWith(suffix) && state === LISTENING ? [inode] : [];
  });
}
