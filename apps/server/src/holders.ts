/** Who holds what a start needs, as far as we may see: for the message that says so. */
import { readdir, readFile, readlink, realpath } from 'node:fs/promises';
import { basename } from 'node:path';

const LISTENING = '0A';
/** Of a command line, what tells which process it is. */
const SHOWN_WORDS = 3;
const SHOWN_LENGTH = 60;
/** By the letter of the kernel; the others need no word. */
const STATES: Readonly<Record<string, string>> = { D: 'waits for a disk', T: 'is stopped', Z: 'has ended' };

/** Who listens on a port of this machine, e.g. `process 4711 (node role.ts control)`; null when it cannot be seen. */
export async function portHolder(port: number): Promise<string | null> {
  const sockets = new Set<string>();
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    for (const inode of listenersOf(await readFile(table, 'utf8').catch(() => ''), port))
      sockets.add(`socket:[${inode}]`);
  }
  return (await processesWith((target) => sockets.has(target)))[0] ?? null;
}

/** Which other processes have a file open. */
export async function fileHolders(path: string): Promise<readonly string[]> {
  const real = await realpath(path).catch(() => path);
  return processesWith((target) => target === real, process.pid);
}

/** Those with an open file that is meant. */
async function processesWith(isMeant: (target: string) => boolean, except?: number): Promise<readonly string[]> {
  const found: string[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && Number(name) !== except)) {
    const fds = await readdir(`/proc/${pid}/fd`).catch(() => []);
    const targets = await Promise.all(fds.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')));
    if (targets.some(isMeant)) found.push(`process ${pid} (${await nameOf(pid)})${await stateOf(pid)}`);
  }
  return found;
}

/** The beginning of its command line, without folders and options; whoever started it chose that, so only plain text is shown. */
async function nameOf(pid: string): Promise<string> {
  const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
  return words
    .filter((word) => word !== '' && !word.startsWith('-'))
    .slice(0, SHOWN_WORDS)
    .map((word) => basename(word))
    .join(' ')
    .replaceAll(/[^\x20-\x7e]/g, '?')
    .slice(0, SHOWN_LENGTH);
}

async function stateOf(pid: string): Promise<string> {
  const letter = /^State:\s+(\w)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8').catch(() => ''))?.[1] ?? '';
  const state = STATES[letter];
  return state === undefined ? '' : `, which ${state}`;
}

/** Inodes of the sockets that listen on the port, from a table of the kernel. */
function listenersOf(table: string, port: number): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return table.split('\n').flatMap((line) => {
    const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
    return local.endsWith(suffix) && state === LISTENING ? [inode] : [];
  });
}
