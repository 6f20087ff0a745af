/**
 * Where archives go to and come from: a folder, or a bucket of storage that speaks S3, as who runs the installation says. A
 * place that cannot be used now stops no start: it is said, with the remedy, and opened at its next use.
 */
import { access, constants } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import type { Archive, ArchiveKey } from '@space/core';

export type ArchiveLocation =
  | { readonly kind: 'folder'; readonly path: string }
  | {
      readonly kind: 's3';
      readonly bucket: string;
      /** Empty, or ends with a slash. */
      readonly prefix: string;
      readonly region: string;
      readonly endpoint?: string;
    };

export type ArchiveLocations = Readonly<Record<string, ArchiveLocation>>;

/** In the process, and as the user, that uses them later. */
export async function openArchives(
  locations: ArchiveLocations,
  onUnusable: (message: string) => void,
): Promise<ReadonlyMap<string, Archive>> {
  const archives = new Map<string, Archive>();
  for (const [name, location] of Object.entries(locations)) {
    const archive = new LateArchive(() => openOne(location));
    archives.set(name, archive);
    try {
      await archive.opened();
      if (location.kind === 'folder') await checkWritable(location.path);
    } catch (thrown) {
      onUnusable(`archives "${name}": ${faultOf(location, thrown, userInfo().username)}`);
    }
  }
  return archives;
}

/** One that can be read alone is good for imports. */
async function checkWritable(folder: string): Promise<void> {
  for (const path of [folder, join(folder, '.staged')]) await access(path, constants.W_OK | constants.X_OK);
}

/** Why a place cannot be used, and what to do about it, for who runs the installation. */
export function faultOf(location: ArchiveLocation, thrown: unknown, user: string): string {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  if (location.kind !== 'folder') return message;
  const { path } = location;
  const code = systemCodeOf(thrown);
  if (code === 'EACCES' || code === 'EPERM') {
    return (
      `the user ${user} must be able to write ${path}, and cannot (${code}). Do: chown ${user} ${path} ` +
      '(-R, if archives of another user lie there; and that user must be let through the folders above).'
    );
  }
  if (code === 'ENOENT') return `there is no folder ${path}. Mount it, or make it: install -d -o ${user} ${path}`;
  if (code === 'EROFS') return `${path} is mounted read-only: nothing can be archived there.`;
  return `${path}: ${message}`;
}

/** The cause of an error of the platform's own is the system's. */
function systemCodeOf(thrown: unknown): string | null {
  if (!(thrown instanceof Error)) return null;
  if ('syscall' in thrown && 'code' in thrown) return String(thrown.code);
  return systemCodeOf(thrown.cause);
}

/** Loaded when it is asked for: the client of S3 is large. */
async function openOne(location: ArchiveLocation): Promise<Archive> {
  if (location.kind === 'folder') return (await import('@space/archive-folder')).openFolderArchive(location.path);
  const { kind: _, ...options } = location;
  return (await import('@space/archive-s3')).openS3Archive(options);
}

/** Opened once it can be, and then kept open. */
class LateArchive implements Archive {
  readonly #open: () => Promise<Archive>;
  #opening: Promise<Archive> | null = null;

  constructor(open: () => Promise<Archive>) {
    this.#open = open;
  }

  opened(): Promise<Archive> {
    this.#opening ??= this.#open().catch((thrown: unknown) => {
      this.#opening = null;
      throw thrown;
    });
    return this.#opening;
  }

  async get(...args: Parameters<Archive['get']>): ReturnType<Archive['get']> {
    return (await this.opened()).get(...args);
  }

  async put(...args: Parameters<Archive['put']>): ReturnType<Archive['put']> {
    return (await this.opened()).put(...args);
  }

  async create(...args: Parameters<Archive['create']>): ReturnType<Archive['create']> {
    return (await this.opened()).create(...args);
  }

  async has(...args: Parameters<Archive['has']>): ReturnType<Archive['has']> {
    return (await this.opened()).has(...args);
  }

  async remove(...args: Parameters<Archive['remove']>): ReturnType<Archive['remove']> {
    return (await this.opened()).remove(...args);
  }

  async *list(...args: Parameters<Archive['list']>): AsyncGenerator<ArchiveKey, void> {
    yield* (await this.opened()).list(...args);
  }
}
