/**
 * Where fakes keep files: in real folders, where a test can look at them, or in memory, where a simulation has thousands of
 * worlds a minute and nothing is left to chance. Paths are absolute; every call is done when it returns.
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';

export interface FakeStorage {
  has(path: string): boolean;
  list(folder: string): readonly string[];
  /** With the folders above it. */
  makeFolder(path: string): void;
  read(file: string): Buffer;
  write(file: string, content: Uint8Array | string): void;
  /** Makes a file longer, by a hole. */
  grow(file: string, bytes: number): void;
  allocatedBytes(file: string): number;
  /** A file, or a folder with all that is in it. */
  copy(from: string, to: string): void;
  /** In the place of what is there. */
  move(from: string, to: string): void;
  /** Whether it is there or not. */
  remove(path: string): void;
}

export const REAL_FOLDERS: FakeStorage = {
  has: (path) => existsSync(path),
  list: (folder) => readdirSync(folder),
  makeFolder: (path) => void mkdirSync(path, { recursive: true }),
  read: (file) => readFileSync(file),
  write: (file, content) => writeFileSync(file, content),
  grow: (file, bytes) => truncateSync(file, bytes),
  allocatedBytes: (file) => statSync(file).blocks * 512,
  copy: (from, to) => cpSync(from, to, { recursive: true }),
  move: (from, to) => renameSync(from, to),
  remove: (path) => rmSync(path, { recursive: true, force: true }),
};

type Folder = Map<string, Folder | Buffer>;

/** Files of a few bytes. Holes are not kept: what a file was grown by is not there when it is read. */
export class MemoryStorage implements FakeStorage {
  readonly #root: Folder = new Map();

  has(path: string): boolean {
    return this.#find(path) !== undefined;
  }

  list(folder: string): readonly string[] {
    return [...this.#folder(folder).keys()];
  }

  makeFolder(path: string): void {
    let at = this.#root;
    for (const name of namesIn(path)) {
      const next = at.get(name) ?? new Map();
      at.set(name, next);
      if (Buffer.isBuffer(next)) throw failure('ENOTDIR', path);
      at = next;
    }
  }

  read(file: string): Buffer {
    const found = this.#find(file);
    if (found === undefined) throw failure('ENOENT', file);
    if (!Buffer.isBuffer(found)) throw failure('EISDIR', file);
    return found;
  }

  write(file: string, content: Uint8Array | string): void {
    this.#put(file, typeof content === 'string' ? Buffer.from(content) : Buffer.from(content));
  }

  grow(file: string): void {
    this.read(file);
  }

  allocatedBytes(file: string): number {
    return this.read(file).length;
  }

  copy(from: string, to: string): void {
    const found = this.#find(from);
    if (found === undefined) throw failure('ENOENT', from);
    this.#put(to, copyOf(found));
  }

  move(from: string, to: string): void {
    const found = this.#find(from);
    if (found === undefined) throw failure('ENOENT', from);
    this.#put(to, found);
    this.remove(from);
  }

  remove(path: string): void {
    const parent = this.#find(dirname(path));
    if (parent instanceof Map) parent.delete(nameOf(path));
  }

  #put(path: string, content: Folder | Buffer): void {
    this.#folder(dirname(path)).set(nameOf(path), content);
  }

  #folder(path: string): Folder {
    const found = this.#find(path);
    if (found === undefined) throw failure('ENOENT', path);
    if (Buffer.isBuffer(found)) throw failure('ENOTDIR', path);
    return found;
  }

  #find(path: string): Folder | Buffer | undefined {
    let at: Folder | Buffer | undefined = this.#root;
    for (const name of namesIn(path)) at = at instanceof Map ? at.get(name) : undefined;
    return at;
  }
}

/** Content is replaced and never changed, so copies share it. */
function copyOf(found: Folder | Buffer): Folder | Buffer {
  if (Buffer.isBuffer(found)) return found;
  const copy: Folder = new Map();
  for (const [name, inner] of found) copy.set(name, copyOf(inner));
  return copy;
}

function namesIn(path: string): readonly string[] {
  return path.split('/').filter((name) => name !== '');
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function failure(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}
