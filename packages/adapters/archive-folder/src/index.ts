/**
 * The archive port on a folder: a mounted share or disk, on which objects are files. A file gets its name once all of it is on
 * the disk, so one with a name is whole. Several machines may share the folder: what is in the making has a name of chance, and
 * what a process that was killed left so goes when it is a day old.
 *
 * The folder itself is never made: a share that is not mounted is an error, and not an empty archive on the host's own disk.
 */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { link, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  AppError,
  type Archive,
  type ArchiveKey,
  archivePath,
  type ListedFolder,
  type ProjectId,
  parseArchiveKey,
} from '@space/core';

const STAGED = '.staged';
const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

/** No object takes so long to be written. */
const LEFT_AFTER_MS = 24 * 60 * 60_000;

/** Throws `archive_unavailable` when it is not there. */
export async function openFolderArchive(folder: string): Promise<Archive> {
  const archive = new FolderArchive(folder);
  await archive.removeLeft(Date.now() - LEFT_AFTER_MS);
  return archive;
}

class FolderArchive implements Archive {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  removeLeft(before: number): Promise<void> {
    return this.#run('opening it', async () => {
      const staged = join(this.#folder, STAGED);
      // Not `recursive`: the folder itself must be there.
      await mkdir(staged, { mode: FOLDER_MODE }).catch(unlessExists);
      for (const name of await readdir(staged)) {
        const found = await unlessMissing(stat(join(staged, name)));
        if (found !== null && found.mtimeMs < before) await rm(join(staged, name), { force: true });
      }
    });
  }

  get(key: ArchiveKey, maxBytes: number, signal?: AbortSignal): Promise<Uint8Array | null> {
    return this.#run('reading', async () => {
      signal?.throwIfAborted();
      // A link is not followed, and nothing but a file is read: a pipe would never answer.
      const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
      await using file = await unlessMissing(open(this.#path(key), flags));
      if (file === null) return null;
      const found = await file.stat();
      if (!found.isFile() || found.size > maxBytes) {
        throw new AppError('archive_damaged', `${archivePath(key)} is no file of at most ${maxBytes} bytes.`);
      }
      const bytes = Buffer.alloc(found.size);
      const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
      return bytes.subarray(0, bytesRead);
    });
  }

  put(key: ArchiveKey, bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
    return this.#run('writing', () => this.#publish(key, bytes, rename, signal));
  }

  /**
   * By a hard link, which a file system makes for one and refuses to all others, over NFS too. One that knows no links is refused:
   * nothing else there is as sure.
   */
  create(key: ArchiveKey, bytes: Uint8Array, signal?: AbortSignal): Promise<boolean> {
    const make = (staged: string, path: string) => isMade(link(staged, path));
    return this.#run('making what may be made once', () => this.#publish(key, bytes, make, signal));
  }

  has(key: ArchiveKey, signal?: AbortSignal): Promise<boolean> {
    return this.#run('looking', async () => {
      signal?.throwIfAborted();
      return (await unlessMissing(stat(this.#path(key)))) !== null;
    });
  }

  remove(key: ArchiveKey, signal?: AbortSignal): Promise<void> {
    return this.#run('removing', async () => {
      signal?.throwIfAborted();
      const path = this.#path(key);
      await rm(path, { force: true });
      // What was an archive is none after a power cut either, when its pieces have gone. A piece that comes back is found again.
      if (key.kind === 'index') await syncFolder(dirname(path)).catch(unlessMissingFolder);
    });
  }

  /** A folder at a time, so that millions of pieces are no list in memory. */
  async *list(space: ProjectId, folder: ListedFolder, signal?: AbortSignal): AsyncGenerator<ArchiveKey, void> {
    const top = join(this.#folder, space, folder);
    const namesIn = (path: string) =>
      this.#run('listing', async () => {
        signal?.throwIfAborted();
        return (await unlessMissing(readdir(path))) ?? [];
      });
    const paths = folder === 'marks' ? [''] : await namesIn(top);
    for (const below of paths) {
      for (const name of await namesIn(join(top, below)).catch(unlessNoFolder)) {
        const key = parseArchiveKey(space, folder, below === '' ? name : `${below}/${name}`);
        if (key !== undefined) yield key;
      }
    }
  }

  /** Whole and on the disk before it gets its name by `give`, and the name on the disk after. */
  async #publish<T>(
    key: ArchiveKey,
    bytes: Uint8Array,
    give: (staged: string, path: string) => Promise<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    signal?.throwIfAborted();
    const staged = join(this.#folder, STAGED, randomUUID());
    const path = this.#path(key);
    try {
      await writeSynced(staged, bytes);
      await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE });
      const given = await give(staged, path);
      // Also of what another one made: it may not be on the disk yet, and is relied on from now.
      await this.#syncFoldersOf(path);
      return given;
    } finally {
      await rm(staged, { force: true });
    }
  }

  #path(key: ArchiveKey): string {
    return join(this.#folder, archivePath(key));
  }

  /** Each may have been made just now. */
  async #syncFoldersOf(path: string): Promise<void> {
    for (let folder = dirname(path); folder.length >= this.#folder.length; folder = dirname(folder)) {
      await syncFolder(folder);
    }
  }

  async #run<T>(doing: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (thrown) {
      if (thrown instanceof AppError || !(thrown instanceof Error && 'syscall' in thrown)) throw thrown;
      const code = 'code' in thrown ? String(thrown.code) : thrown.message;
      throw new AppError('archive_unavailable', `The archive's folder failed in ${doing}: ${code}.${rights(code)}`, {
        cause: thrown,
      });
    }
  }
}

/** Where the folder lies is not for every caller to know; who runs the installation is told at its start. */
function rights(code: string): string {
  if (!['EACCES', 'EPERM', 'EROFS'].includes(code)) return '';
  return ' The platform has no right to it: who runs the installation is told the remedy when `space up` starts.';
}

async function writeSynced(path: string, bytes: Uint8Array): Promise<void> {
  await using file = await open(path, 'wx', FILE_MODE);
  await file.writeFile(bytes);
  await file.sync();
}

async function unlessMissing<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (thrown) {
    if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT') return null;
    throw thrown;
  }
}

/** False: there was one. */
async function isMade(making: Promise<void>): Promise<boolean> {
  try {
    await making;
    return true;
  } catch (thrown) {
    unlessExists(thrown);
    return false;
  }
}

async function syncFolder(path: string): Promise<void> {
  await using handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  await handle.sync();
}

function unlessMissingFolder(thrown: unknown): void {
  if (!(thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT')) throw thrown;
}

/** A file that somebody has left among the folders. */
function unlessNoFolder(thrown: unknown): string[] {
  if (thrown instanceof AppError && thrown.message.includes('ENOTDIR')) return [];
  throw thrown;
}

function unlessExists(thrown: unknown): void {
  if (!(thrown instanceof Error && 'code' in thrown && thrown.code === 'EEXIST')) throw thrown;
}
