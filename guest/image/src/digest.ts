/** Digests that name what is built (of inputs) and what came out (of content). SHA-256, hexadecimal. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

/** The same for equal values, whatever the order of their keys. */
export function digestValue(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex');
}

function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    item !== null && typeof item === 'object' && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
}

export async function digestFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash);
  return hash.digest('hex');
}

export interface TreeFilter {
  /** Decides on a path relative to the root; a folder that is refused is not entered. */
  readonly keep?: (path: string) => boolean;
}

/**
 * Names, kinds, the executable bit and content of everything under `root`; owners and times don't count, since a
 * checkout's differ from machine to machine.
 */
export async function digestTree(root: string, filter: TreeFilter = {}): Promise<string> {
  const lines: string[] = [];
  const visit = async (relative: string): Promise<void> => {
    const names = await readdir(join(root, relative));
    for (const name of names.sort()) {
      const path = relative === '' ? name : `${relative}/${name}`;
      if (filter.keep && !filter.keep(path)) continue;
      const stat = await lstat(join(root, path));
      if (stat.isDirectory()) await visit(path);
      else if (stat.isSymbolicLink()) lines.push(`link ${path} ${await readlink(join(root, path))}`);
      else if (stat.isFile()) {
        const executable = (stat.mode & 0o111) !== 0 ? 'program' : 'file';
        lines.push(`${executable} ${path} ${await digestFile(join(root, path))}`);
      }
    }
  };
  await visit('');
  return digestValue(lines);
}
