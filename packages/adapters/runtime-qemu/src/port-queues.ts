/**
 * Whether QEMU still moves bytes between the ports' sockets and guest memory. When a VM stops there may be bytes in a
 * socket that QEMU has not read; it goes on reading, a piece in each turn of its main loop, until there are none or the
 * guest has no room. Each command takes a turn at least: when nothing changed over several, nothing moves any more.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { SERIAL_PATH } from './command-line.ts';
import type { Qmp } from './qmp.ts';

/** In and out of port 1 and port 2; 0 to 3 are those of port 0, which is not there, and of the device itself. */
const PORT_QUEUES = [4, 5, 6, 7];
const LIMIT_MS = 2_000;

const queueSchema = z.object({ 'used-idx': z.int(), 'last-avail-idx': z.int().optional() });

/** Waits until nothing moves. The vCPUs must be stopped and the ports held. */
export async function portsAtRest(qmp: Qmp): Promise<void> {
  const deadline = performance.now() + LIMIT_MS;
  for (;;) {
    const [before, after] = await Promise.all([readQueues(qmp), readQueues(qmp)]);
    if (before === after) return;
    if (performance.now() > deadline) throw new Error('The guest ports do not come to rest');
    await sleep(1);
  }
}

async function readQueues(qmp: Qmp): Promise<string> {
  const read = (queue: number) => qmp.execute('x-query-virtio-queue-status', { path: SERIAL_PATH, queue });
  const queues = await Promise.all(PORT_QUEUES.map(read));
  return JSON.stringify(queues.map((queue) => queueSchema.parse(queue)));
}
