/** Files of the gateway's own folder: keys, and what is encrypted by them. */
import { mkdir, open, readFile, rename } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Null: there is none. */
export function findOwn(path: string): Promise<Buffer | null> {
  return readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
}

/** Whole or as it was, and durable when it returns: what guests and hosts were told of must not be lost to a crash. */
export async function keepOwn(path: string, content: string | Uint8Array): Promise<void> {
  const folderPath = dirname(path);
  await mkdir(folderPath, { recursive: true, mode: 0o700 });
  const file = await open(`${path}.new`, 'w', 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
  const folder = await open(folderPath);
  await folder.sync().finally(() => folder.close());
}
