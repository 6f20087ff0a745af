/**
 * The cache of built artefacts.
 *
 *   <cache>/<kind>/<key>/artefact.json   a finished artefact: key is the digest of all that it is made from
 *   <cache>/tmp/                         half-made ones; renamed into place when complete
 *   <cache>/assets/<inputs digest>.json  which artefacts belong together for one state of the sources
 *
 * Invariants: what has its final name is complete and on disk; nothing with a final name is ever changed. Builders
 * hold the build lock (setup/bootstrap.sh takes it), so at start everything in tmp/ is left from a dead build.
 */
import { chmod, lstat, mkdir, mkdtemp, open, readdir, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { run } from './run.ts';

export const ARTEFACT_KINDS = [
  'vmm',
  'kernel',
  'agent',
  'jail',
  'helper',
  'vault-server',
  'initramfs',
  'base',
] as const;
type ArtefactKind = (typeof ARTEFACT_KINDS)[number];

export const cacheDir = (): string => process.env['SPACE_CACHE'] || '/var/cache/space';

export interface ArtefactOptions<T> {
  readonly kind: ArtefactKind;
  readonly key: string;
  /** Checks what an earlier build noted down. */
  readonly parse: (note: unknown) => T;
  /** Fills the folder and returns what is to be noted down about it. */
  readonly make: (dir: string) => Promise<T>;
}

export type Artefact<T> = T & { readonly dir: string; readonly fromCache: boolean };

const artefactDir = (kind: ArtefactKind, key: string): string => join(cacheDir(), kind, key.slice(0, 32));

export async function provideArtefact<T extends object>(options: ArtefactOptions<T>): Promise<Artefact<T>> {
  const dir = artefactDir(options.kind, options.key);
  const note = await readJson(join(dir, 'artefact.json'));
  if (note !== undefined) {
    await touch(join(dir, 'artefact.json'));
    return { ...options.parse(note), dir, fromCache: true };
  }

  const temporary = await mkdtemp(join(cacheDir(), 'tmp', `${options.kind}-`));
  try {
    const made = await options.make(temporary);
    await writeFile(join(temporary, 'artefact.json'), `${JSON.stringify(made, null, 2)}\n`);
    await chmod(temporary, 0o755);
    await publish(temporary, dir);
    return { ...made, dir, fromCache: false };
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

/** Replaces a file as a whole, so that a reader sees the old one or the new one. */
export async function writeFileAtomic(path: string, content: string): Promise<void> {
  const temporary = join(cacheDir(), 'tmp', `file-${process.pid}-${Date.now()}`);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(temporary, content);
  await publish(temporary, path);
}

/** Durable first, then visible. Only our own files are flushed: the disk may be busy with somebody else's. */
async function publish(temporary: string, path: string): Promise<void> {
  await flush(temporary);
  await mkdir(dirname(path), { recursive: true });
  await rename(temporary, path);
  await flushOne(dirname(path));
}

async function flush(path: string): Promise<void> {
  const stat = await lstat(path);
  if (stat.isDirectory()) for (const name of await readdir(path)) await flush(join(path, name));
  if (stat.isDirectory() || stat.isFile()) await flushOne(path);
}

async function flushOne(path: string): Promise<void> {
  await using file = await open(path);
  await file.sync();
}

/** Call once, holding the build lock. */
export async function removeDeadBuilds(): Promise<void> {
  const temporary = join(cacheDir(), 'tmp');
  await mkdir(temporary, { recursive: true, mode: 0o700 });
  for (const mount of (await mountsBelow(temporary)).reverse()) await run(['umount', '--lazy', mount]);
  for (const name of await readdir(temporary)) await rm(join(temporary, name), { recursive: true, force: true });
}

async function mountsBelow(dir: string): Promise<string[]> {
  const mounts = await readFile('/proc/self/mountinfo', 'utf8');
  return mounts
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((path) => path.startsWith(`${dir}/`));
}

/** That it was used now. Only root may say so; to others the cache is there to be read. */
export async function touch(path: string): Promise<void> {
  const now = new Date();
  await utimes(path, now, now).catch(() => undefined);
}

/** `undefined` when there is no such file. */
export async function readJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}
