/**
 * Device state, out of a stopped VMM and into a new one, by QEMU's migration. Memory is not in it: it is a shared file,
 * which migration skips (`x-ignore-shared`). State goes through a pair of sockets, one end of
 * which is passed to QEMU; nothing is spawned, and no path is needed.
 */

import { closeSync } from 'node:fs';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { socketPair } from '@space/root-helper';
import { z } from 'zod';
import type { Qmp, QmpEvent } from './qmp.ts';
import { collect } from './sockets.ts';

/** A VM has some 150 KB of it. */
const MAX_STATE_BYTES = 16 * 1024 * 1024;
const LIMIT_MS = 10_000;

const CAPABILITIES = {
  capabilities: [
    { capability: 'x-ignore-shared', state: true },
    { capability: 'events', state: true },
  ],
};

/** The vCPUs must be stopped. On failure the VM is as before. */
export async function fetchDeviceState(qmp: Qmp): Promise<Buffer> {
  const socket = await passSocket(qmp, 'outgoing');
  const collected = collect(socket, { maxBytes: MAX_STATE_BYTES, timeoutMs: LIMIT_MS });
  collected.catch(() => {});
  try {
    await migrate(qmp, () =>
      Promise.all([
        qmp.execute('migrate-set-capabilities', CAPABILITIES),
        qmp.execute('migrate', { uri: 'fd:outgoing' }),
      ]),
    );
    return await collected;
  } catch (thrown) {
    if (!qmp.closed) await endMigration(qmp);
    throw thrown;
  } finally {
    socket.destroy();
  }
}

/** For a VMM that waits for it (`-incoming defer`); the vCPUs stay stopped. */
export async function sendDeviceState(qmp: Qmp, deviceState: Uint8Array): Promise<void> {
  const socket = await passSocket(qmp, 'incoming');
  // A VMM that refuses the state closes the socket; why is in the migration's end.
  socket.on('error', () => {});
  try {
    await Promise.all([
      qmp.execute('migrate-set-capabilities', CAPABILITIES),
      qmp.execute('migrate-incoming', { uri: 'fd:incoming' }),
    ]);
    await migrate(qmp, async () => socket.end(deviceState));
  } finally {
    socket.destroy();
  }
}

/** Gives QEMU one end of a connection, by this name, and returns the other. */
async function passSocket(qmp: Qmp, fdname: string): Promise<Socket> {
  const { ours, theirs } = socketPair();
  try {
    await qmp.executeWithFiles('getfd', { fdname }, [theirs]);
    return ours;
  } catch (thrown) {
    ours.destroy();
    throw thrown;
  } finally {
    closeSync(theirs);
  }
}

/** Cancels a migration that is under way, e.g. one whose other side has died, and waits until it is over. */
export async function endMigration(qmp: Qmp): Promise<void> {
  const deadline = performance.now() + LIMIT_MS;
  for (let cancelled = false; ; cancelled = true) {
    const { status } = z.object({ status: z.string().optional() }).parse(await qmp.execute('query-migrate'));
    if (status === undefined || OVER.has(status)) return;
    if (!cancelled) await qmp.execute('migrate_cancel');
    if (performance.now() > deadline) throw new Error(`The VMM does not end its migration (${status})`);
    await sleep(2);
  }
}

/** Starts a migration and waits until it is complete. */
async function migrate(qmp: Qmp, start: () => Promise<unknown>): Promise<void> {
  const giveUp = new AbortController();
  const timer = setTimeout(() => giveUp.abort(), LIMIT_MS);
  try {
    const end = qmp.waitFor('the end of the migration', statusWhenOver, giveUp.signal);
    const [status] = await Promise.all([end, start()]);
    if (status !== 'completed') throw new Error(`The VMM reports its migration as ${status}`);
  } finally {
    clearTimeout(timer);
    giveUp.abort();
  }
}

const OVER = new Set(['none', 'completed', 'failed', 'cancelled']);

function statusWhenOver({ name, data }: QmpEvent): string | undefined {
  const { status } = data;
  return name === 'MIGRATION' && typeof status === 'string' && OVER.has(status) ? status : undefined;
}
