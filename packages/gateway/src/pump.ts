/** Bytes both ways, each direction with its own end and at the pace of who reads. */
import type { Duplex, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { AppError } from '@space/core';
import type { Account, Passage } from './passage.ts';

interface Pumped {
  readonly passage: Passage;
  readonly guest: Duplex;
  readonly far: Duplex;
  readonly account: Account;
  readonly status?: number;
  /** What the guest sends passes through it. */
  readonly screen?: Transform | null;
  /** What the guest receives passes through it. */
  readonly through?: Transform | null;
}

/** Settles when both directions have ended, or one has broken. Never rejects. */
export async function pump(pumped: Pumped): Promise<void> {
  const { passage, guest, far, account, status, screen = null, through = null } = pumped;
  // Whoever has to do with one of them waits for its end: a fixed number, but more than ten.
  for (const stream of [guest, far]) stream.setMaxListeners(0);
  guest.on('data', (bytes: Buffer) => {
    account.sentBytes += bytes.length;
  });
  far.on('data', (bytes: Buffer) => {
    account.receivedBytes += bytes.length;
  });
  const { signal } = passage;
  try {
    const back = through === null ? pipeline(far, guest, { signal }) : pipeline(far, through, guest, { signal });
    const out = screen === null ? pipeline(guest, far, { signal }) : pipeline(guest, screen, far, { signal });
    await Promise.all([out, back]);
    account.end('allowed', status);
  } catch (thrown) {
    account.end(signal.aborted ? 'cut' : isRefused(thrown) ? 'refused' : 'failed', status);
  } finally {
    guest.destroy();
    far.destroy();
  }
}

function isRefused(thrown: unknown): boolean {
  return thrown instanceof AppError && thrown.code === 'egress_refused';
}
