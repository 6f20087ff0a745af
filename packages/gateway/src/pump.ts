/** Bytes both ways, each direction with its own end and at the pace of who reads. */
import type { Duplex, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Account, Passage } from './passage.ts';

interface Pumped {
  readonly passage: Passage;
  readonly guest: Duplex;
  readonly far: Duplex;
  readonly account: Account;
  readonly status?: number;
  /** What the guest receives passes through it. */
  readonly through?: Transform | null;
}

/** Settles when both directions have ended, or one has broken. Never rejects. */
export async function pump({ passage, guest, far, account, status, through = null }: Pumped): Promise<void> {
  guest.on('data', (bytes: Buffer) => {
    account.sentBytes += bytes.length;
  });
  far.on('data', (bytes: Buffer) => {
    account.receivedBytes += bytes.length;
  });
  const { signal } = passage;
  try {
    const back = through === null ? pipeline(far, guest, { signal }) : pipeline(far, through, guest, { signal });
    await Promise.all([pipeline(guest, far, { signal }), back]);
    account.end('allowed', status);
  } catch {
    account.end(signal.aborted ? 'cut' : 'failed', status);
  } finally {
    guest.destroy();
    far.destroy();
  }
}
