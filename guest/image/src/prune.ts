/**
 * What was built for sources that nobody uses any more goes: each change of them makes artefacts anew, and an image alone takes
 * a gigabyte.
 *
 * A set of assets was last used when its file was last touched: whoever loads it does that, and a platform that runs once a
 * day. Of an artefact that no set names (what others were made from), its own note counts, which a build touches that finds it.
 * Vaults need nothing of the cache: images and builds of the VMM are copied beside them.
 *
 * Whoever calls this holds the build lock. What goes loses its name first, so a removal that is cut short leaves what the
 * next build clears away; and what cannot be removed keeps nothing else.
 */
import { readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { ARTEFACT_KINDS, cacheDir } from './cache.ts';

export const KEPT_UNUSED_DAYS = 30;
const KEPT_UNUSED_MS = KEPT_UNUSED_DAYS * 24 * 60 * 60 * 1000;

export interface Pruned {
  /** Below the cache. */
  readonly removed: readonly string[];
  /** What could not be removed, and why. */
  readonly failed: readonly string[];
}

export async function pruneCache(nowMs = Date.now()): Promise<Pruned> {
  const removed: string[] = [];
  const failed: string[] = [];
  const isOld = async (path: string) => nowMs - (await stat(path)).mtimeMs > KEPT_UNUSED_MS;
  const attempt = async (name: string, work: () => Promise<void>) => {
    await work().catch((thrown: unknown) => failed.push(`${name}: ${String(thrown)}`));
  };
  const remove = async (name: string) => {
    const doomed = join(cacheDir(), 'tmp', `pruned-${name.replaceAll(sep, '-')}`);
    await rm(doomed, { recursive: true, force: true });
    await rename(join(cacheDir(), name), doomed);
    await rm(doomed, { recursive: true, force: true });
    removed.push(name);
  };

  const named = new Set<string>();
  for (const file of await entriesOf('assets')) {
    const name = join('assets', file);
    const path = join(cacheDir(), name);
    await attempt(name, async () => {
      if (await isOld(path)) return remove(name);
      for (const one of artefactsIn(await readFile(path, 'utf8'))) named.add(one);
    });
  }
  // With a set that cannot be read, nobody knows what it needs.
  if (failed.length > 0) return { removed, failed };
  for (const kind of ARTEFACT_KINDS) {
    for (const key of await entriesOf(kind)) {
      const name = join(kind, key);
      await attempt(name, async () => {
        if (!named.has(name) && (await isOld(join(cacheDir(), name, 'artefact.json')))) await remove(name);
      });
    }
  }
  return { removed, failed };
}

async function entriesOf(folder: string): Promise<readonly string[]> {
  return readdir(join(cacheDir(), folder)).catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code === 'ENOENT') return [];
    throw thrown;
  });
}

/** `kind/key` of each path into the cache. */
function artefactsIn(assets: string): readonly string[] {
  const paths = [...assets.matchAll(/"(\/[^"]*)"/g)].map(([, path = '']) => path);
  const inside = paths.filter((path) => path.startsWith(`${cacheDir()}/`));
  return inside.map((path) =>
    path
      .slice(cacheDir().length + 1)
      .split('/')
      .slice(0, 2)
      .join('/'),
  );
}
