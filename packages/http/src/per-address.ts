/**
 * How many connections one address may have at once: what it opens beyond them is reset before a byte of it is read, so that
 * nobody alone can take all that there are. Of IPv6, the 64 bits that a network is given count as one address.
 */
import type { Server, Socket } from 'node:net';
import { isIPv6 } from 'node:net';

export function limitPerAddress(server: Server, most: number): void {
  const open = new Map<string, number>();
  server.on('connection', (socket: Socket) => {
    const { remoteAddress } = socket;
    // It is gone already.
    if (remoteAddress === undefined) return;
    const owner = ownerOf(remoteAddress);
    const count = open.get(owner) ?? 0;
    if (count >= most) {
      socket.resetAndDestroy();
      return;
    }
    open.set(owner, count + 1);
    socket.once('close', () => {
      const left = (open.get(owner) ?? 1) - 1;
      if (left === 0) open.delete(owner);
      else open.set(owner, left);
    });
  });
}

/** Whose an address is. */
export function ownerOf(address: string): string {
  if (!isIPv6(address) || address.startsWith('::ffff:')) return address;
  const [head = '', tail] = (address.split('%')[0] ?? '').split('::');
  const groups = (text: string | undefined) => (text === undefined || text === '' ? [] : text.split(':'));
  const known = groups(head).length + groups(tail).length;
  const zeros = tail === undefined ? [] : Array.from({ length: 8 - known }, () => '0');
  return [...groups(head), ...zeros, ...groups(tail)].slice(0, 4).join(':');
}
