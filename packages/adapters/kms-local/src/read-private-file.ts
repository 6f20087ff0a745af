/** Reads what only the platform may read, and says what it means that it cannot be read. */
import type { Stats } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { AppError } from '@space/core';

const MAX_BYTES = 4096;
const OTHERS_MAY = 0o077;

/**
 * A file that is gone, or may not be read, is a key that may not be used: `kms_refused`. A folder that is gone is a place
 * that is not mounted: `kms_unavailable`, as is anything else that goes wrong.
 */
export async function readPrivateFile(path: string, what: string): Promise<Buffer> {
  try {
    await using file = await open(path, 'r');
    const found = await file.stat();
    refuseUnlessPrivate(found, what);
    const bytes = Buffer.allocUnsafeSlow(Math.min(found.size, MAX_BYTES));
    const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
    return bytes.subarray(0, bytesRead);
  } catch (thrown) {
    if (thrown instanceof AppError) throw thrown;
    throw await meaningOf(thrown, path, what);
  }
}

function refuseUnlessPrivate({ mode }: Stats, what: string): void {
  if ((mode & OTHERS_MAY) === 0) return;
  throw new AppError('kms_refused', `${what} can be read by other users of the machine; it has to have the mode 0600.`);
}

async function meaningOf(thrown: unknown, path: string, what: string): Promise<AppError> {
  const { code } = thrown as NodeJS.ErrnoException;
  if (code === 'EACCES' || code === 'EPERM') return new AppError('kms_refused', `${what} may not be read.`);
  if (code === 'ENOENT') {
    const folder = await stat(dirname(path)).catch(() => null);
    if (folder?.isDirectory() === true) return new AppError('kms_refused', `${what} is gone.`);
  }
  return new AppError('kms_unavailable', `${what} cannot be read now (${code ?? 'no reason'}).`);
}
