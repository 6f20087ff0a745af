/** Bytes both ways, each direction with its own end and at the pace of who reads. */
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Account, Passage } from './passage.ts';

interface Pumped {
  readonly passage: Passage;
  readonly guest: Duplex;
  readonly far: Duplex;
  readonly account: Account;
  readonly status?: number;
}

/** Settles when both directions have ended, or one has broken. Never rejects. */
export async function pump({ passage, guest, far, account, status }: Pumped): Promise<void> {
  guest.on('data', (bytes: Buffer) => {
    account.sentBytes += bytes.length;
  });
  far.on('data', (bytes: Buffer) => {
    account.receivedBytes += bytes.length;
  });
  const { signal } = passage;
  try {
    await Promise.all([pipeline(guest, far, { signal }), pipeline(far, guest, { signal })]);
    account.end('allowed', status);
  } catch {
    account.end(signal.aborted ? 'cut' : 'failed', status);
  } finally {
    guest.destroy();
    far.destroy();
  }
}
