/** Calls and connections find each other by their ticket, in either order, and nothing else does. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { newTicket, Tickets } from '../src/tickets.ts';

const { signal } = new AbortController();
const opened: Socket[] = [];
let listening: ReturnType<typeof createServer>;

beforeEach(async () => {
  listening = createServer((socket) => void opened.push(socket)).listen(0, '127.0.0.1');
  await once(listening, 'listening');
});
afterEach(() => {
  vi.useRealTimers();
  for (const socket of opened.splice(0)) socket.destroy();
  listening.close();
});

async function aSocket(): Promise<Socket> {
  const address = listening.address();
  if (address === null || typeof address === 'string') throw new Error('it does not listen');
  const socket = connect(address.port, '127.0.0.1');
  opened.push(socket);
  await once(socket, 'connect');
  return socket;
}

it.each(['the call', 'the connection'])('%s may come first', async (first) => {
  const tickets = new Tickets();
  const ticket = newTicket();
  const socket = await aSocket();
  if (first === 'the connection') tickets.offer(ticket, socket);
  const found = tickets.find(ticket, signal);
  if (first === 'the call') tickets.offer(ticket, socket);
  expect(await found).toBe(socket);
  expect(socket.destroyed).toBe(false);
});

it('a name without its proof finds nothing, and takes nothing from who has it', async () => {
  const tickets = new Tickets();
  const ticket = newTicket();
  const forged = Buffer.from(ticket);
  forged[47] = (forged[47] ?? 0) ^ 1;
  const found = tickets.find(ticket, signal);
  const [stranger, socket] = [await aSocket(), await aSocket()];
  tickets.offer(forged, stranger);
  expect(stranger.destroyed).toBe(true);
  tickets.offer(ticket, socket);
  expect(await found).toBe(socket);
});

it('a second connection with one ticket is turned away', async () => {
  const tickets = new Tickets();
  const ticket = newTicket();
  const [first, second] = [await aSocket(), await aSocket()];
  tickets.offer(ticket, first);
  tickets.offer(ticket, second);
  expect(second.destroyed).toBe(true);
  expect(await tickets.find(ticket, signal)).toBe(first);
});

it('what finds no counterpart is given up after ten seconds', async () => {
  const [lonely, given] = [await aSocket(), new AbortController()];
  vi.useFakeTimers();
  const tickets = new Tickets();
  const call = tickets.find(newTicket(), signal);
  const aborted = tickets.find(newTicket(), given.signal);
  given.abort(new Error('nobody waits'));
  await expect(aborted).rejects.toThrow('nobody waits');
  tickets.offer(newTicket(), lonely);
  const refused = expect(call).rejects.toMatchObject({ code: 'unavailable' });
  vi.advanceTimersByTime(10_001);
  await refused;
  expect(lonely.destroyed).toBe(true);
});

it('no more wait than a bound', async () => {
  const tickets = new Tickets();
  const waiting = new AbortController();
  const all = Array.from({ length: 4096 }, () => tickets.find(newTicket(), waiting.signal).catch(() => undefined));
  await expect(tickets.find(newTicket(), signal)).rejects.toMatchObject({ code: 'unavailable' });
  waiting.abort(new Error('enough'));
  await Promise.all(all);
  const socket = await aSocket();
  const ticket = newTicket();
  tickets.offer(ticket, socket);
  expect(await tickets.find(ticket, signal)).toBe(socket);
});
