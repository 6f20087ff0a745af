/**
 * The files of a fake guest: a small file system in memory that does what `GuestFiles` says, links, modes, attributes and
 * watches included. It passes the same cases as the real agent. It has no permissions: every user may do everything.
 */
import { createHash } from 'node:crypto';
import {
  AppError,
  type FileAttributes,
  type FileMove,
  type FilePath,
  type FileRange,
  type FileStatus,
  type Following,
  type GuestBytes,
  type GuestFiles,
  guestBytes,
  type ListedFile,
  type NewDirectory,
  type NewFile,
  rawBytes,
  type WatchEvent,
  type WatchedDirectory,
  type Xattr,
} from '@space/core';
import { FakeWatches } from './fake-watches.ts';

interface FakeEntry {
  readonly type: 'file' | 'directory' | 'symlink';
  /** Of a file its content, of a link its target; one character per byte. */
  readonly content: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly modifiedMs: number;
  readonly xattrs: Readonly<Record<string, string>>;
}

const HOME = '/home/user';
const MAX_LINKS = 40;

/** Paths and names inside have one character per byte, so that their order is that of bytes. */
const inner = (value: GuestBytes): string => Buffer.from(rawBytes(value)).toString('latin1');
const outer = (text: string): GuestBytes => guestBytes(Uint8Array.from(Buffer.from(text, 'latin1')));
const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
const parentOf = (path: string): string => path.slice(0, Math.max(1, path.lastIndexOf('/')));
const below = (directory: string): string => (directory === '/' ? '/' : `${directory}/`);

export class FakeFiles implements GuestFiles {
  readonly #entries: Map<string, FakeEntry>;
  readonly #watches = new FakeWatches();

  constructor(entries: Iterable<readonly [string, FakeEntry]> = []) {
    this.#entries = new Map(entries);
    if (this.#entries.size === 0) for (const path of ['/', '/home', HOME]) this.#put(path, 'directory', '', 0o755);
  }

  copy(): FakeFiles {
    return new FakeFiles(this.#entries);
  }

  /** As text that `fromJson` takes. */
  toJson(): string {
    return JSON.stringify([...this.#entries]);
  }

  static fromJson(text: string): FakeFiles {
    const entries: unknown = text === '' ? [] : JSON.parse(text);
    return new FakeFiles(Array.isArray(entries) ? entries : []);
  }

  /** What a regular file holds; empty when there is none. */
  textOf(path: string): string {
    return this.#entries.get(path)?.content ?? '';
  }

  setText(path: string, content: string): void {
    this.#put(path, 'file', content, 0o644);
  }

  /** The life is over: every watch ends with the reason. */
  lose(reason: AppError = new AppError('vm_lost', 'The VM ended.')): void {
    this.#watches.lose(reason);
  }

  async readFile({ path, offset = 0, length }: FileRange) {
    const at = this.#resolve(path);
    const { type, content } = this.#get(at);
    if (type !== 'file') throw new AppError('file_wrong_type', 'It is no regular file.');
    const part = Buffer.from(content, 'latin1').subarray(offset, length === undefined ? undefined : offset + length);
    return { status: this.#status(at, nameOf(inner(path))), body: once(part) };
  }

  async writeFile({ path, mode, ifAbsent, sha256: expected }: NewFile, body: AsyncIterable<Uint8Array>) {
    const bytes = Buffer.concat(await Array.fromAsync(body));
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    if (expected !== undefined && expected !== sha256) throw new AppError('digest_mismatch', 'The digest differs.');
    const at = this.#resolve(path, false);
    const there = this.#entries.get(at);
    if (ifAbsent === true && there !== undefined) throw new AppError('file_exists', 'It is there.');
    if (there?.type === 'directory') throw new AppError('file_wrong_type', 'It is a directory.');
    this.#makeParents(at);
    this.#put(at, 'file', bytes.toString('latin1'), mode ?? (there?.type === 'file' ? there.mode & 0o777 : 0o644));
    this.#tell(there === undefined ? 'created' : 'modified', at);
    return { sizeBytes: bytes.length, sha256 };
  }

  async stat({ path, follow = true }: FilePath & Following): Promise<FileStatus> {
    return this.#status(this.#resolve(path, follow), nameOf(inner(path)));
  }

  async *list({ path, depth = 1 }: FilePath & { readonly depth?: number }): AsyncGenerator<ListedFile> {
    const directory = this.#resolve(path);
    if (this.#get(directory).type !== 'directory') throw new AppError('file_wrong_type', 'It is no directory.');
    yield* this.#listed(directory, '', depth);
  }

  async makeDirectory({ path, parents = false, mode = 0o755 }: NewDirectory): Promise<FileStatus> {
    const at = this.#resolve(path, false);
    const there = this.#entries.get(at);
    if (there !== undefined && !(parents && there.type === 'directory'))
      throw new AppError('file_exists', 'It exists.');
    if (parents) this.#makeParents(at);
    else this.#checkParent(at);
    if (there === undefined) {
      this.#put(at, 'directory', '', mode);
      this.#tell('created', at);
    }
    return this.#status(at, nameOf(at));
  }

  async moveFile({ from, to, overwrite = true }: FileMove): Promise<void> {
    const [source, target] = [this.#resolve(from, false), this.#resolve(to, false)];
    const moved = this.#get(source);
    this.#checkParent(target);
    if (target.startsWith(below(source))) throw new AppError('bad_request', 'It cannot be moved into itself.');
    if (source === target) return;
    const there = this.#entries.get(target);
    if (there !== undefined) this.#checkReplaceable(moved, target, there, overwrite);
    for (const [path, entry] of [...this.#entries]) {
      if (path !== source && !path.startsWith(below(source))) continue;
      this.#entries.delete(path);
      this.#entries.set(target + path.slice(source.length), entry);
    }
    this.#watches.moved(source, target, moved.type === 'directory');
  }

  async removeFile({ path, recursive = false }: FilePath & { readonly recursive?: boolean }): Promise<number> {
    const at = this.#resolve(path, false);
    this.#get(at);
    if (at === '/') throw new AppError('bad_request', 'The path does not end in a name.');
    const inside = [...this.#entries.keys()].filter((one) => one.startsWith(below(at)));
    if (inside.length > 0 && !recursive) throw new AppError('directory_not_empty', 'It is not empty.');
    for (const one of [...inside.sort().reverse(), at]) {
      this.#tell('removed', one);
      this.#entries.delete(one);
    }
    return inside.length + 1;
  }

  async setAttributes({ path, follow = true, mode, owner, group }: FileAttributes): Promise<FileStatus> {
    const at = this.#resolve(path, follow);
    const entry = this.#get(at);
    const uid = owner === undefined ? entry.uid : idOf(owner);
    const gid = group === undefined ? entry.gid : idOf(group);
    const kept = owner === undefined && group === undefined ? entry.mode : entry.mode & 0o1777;
    this.#entries.set(at, { ...entry, uid, gid, mode: mode ?? kept });
    this.#tell('attributes', at);
    return this.#status(at, nameOf(inner(path)));
  }

  async makeSymlink({ path, target }: FilePath & { readonly target: GuestBytes }): Promise<FileStatus> {
    const at = this.#resolve(path, false);
    if (this.#entries.has(at)) throw new AppError('file_exists', 'It exists.');
    this.#checkParent(at);
    this.#put(at, 'symlink', inner(target), 0o777);
    this.#tell('created', at);
    return this.#status(at, nameOf(at));
  }

  async xattrs({ path, follow = true }: FilePath & Following): Promise<readonly GuestBytes[]> {
    return Object.keys(this.#get(this.#resolve(path, follow)).xattrs)
      .sort()
      .map(outer);
  }

  async xattr({ path, follow = true, name }: Xattr): Promise<Uint8Array> {
    const value = this.#get(this.#resolve(path, follow)).xattrs[inner(name)];
    if (value === undefined) throw new AppError('attribute_not_found', 'There is no such attribute.');
    return Uint8Array.from(Buffer.from(value, 'latin1'));
  }

  async setXattr({ path, follow = true, name }: Xattr, value: Uint8Array): Promise<void> {
    const at = this.#resolve(path, follow);
    const entry = this.#get(at);
    if (!/^(user|trusted|security)\../.test(inner(name))) throw new AppError('file_unsupported', 'No such namespace.');
    const xattrs = { ...entry.xattrs, [inner(name)]: Buffer.from(value).toString('latin1') };
    this.#entries.set(at, { ...entry, xattrs });
    this.#tell('attributes', at);
  }

  async removeXattr(attribute: Xattr): Promise<void> {
    await this.xattr(attribute);
    const at = this.#resolve(attribute.path, attribute.follow ?? true);
    const entry = this.#get(at);
    const { [inner(attribute.name)]: _, ...xattrs } = entry.xattrs;
    this.#entries.set(at, { ...entry, xattrs });
    this.#tell('attributes', at);
  }

  watch({ path, recursive = false }: WatchedDirectory, signal?: AbortSignal): AsyncIterable<WatchEvent> {
    const open = (): string => {
      const directory = this.#resolve(path);
      if (this.#get(directory).type !== 'directory') throw new AppError('file_wrong_type', 'It is no directory.');
      return directory;
    };
    return this.#watches.watch(open, recursive, signal);
  }

  *#listed(directory: string, prefix: string, depth: number): Generator<ListedFile> {
    const start = below(directory);
    const names = [...this.#entries.keys()]
      .filter((path) => path !== '/' && path.startsWith(start) && !path.slice(start.length).includes('/'))
      .map((path) => path.slice(start.length))
      .sort();
    for (const name of names) {
      const path = prefix + name;
      const status = this.#status(start + name, name);
      yield { ...status, path: outer(path), unreadable: false };
      if (status.type === 'directory' && depth > 1) yield* this.#listed(start + name, `${path}/`, depth - 1);
    }
  }

  #checkReplaceable(moved: FakeEntry, target: string, there: FakeEntry, overwrite: boolean): void {
    if (!overwrite) throw new AppError('file_exists', 'It is there.');
    if ((moved.type === 'directory') !== (there.type === 'directory')) {
      throw new AppError('file_wrong_type', 'A directory and another kind do not replace each other.');
    }
    if ([...this.#entries.keys()].some((path) => path.startsWith(below(target)))) {
      throw new AppError('directory_not_empty', 'It is not empty.');
    }
  }

  #put(path: string, type: FakeEntry['type'], content: string, mode: number): void {
    this.#entries.set(path, { type, content, mode, uid: 1000, gid: 1000, modifiedMs: Date.now(), xattrs: {} });
  }

  #tell(kind: 'created' | 'modified' | 'removed' | 'attributes', path: string): void {
    this.#watches.tell(kind, path, this.#entries.get(path)?.type === 'directory');
  }

  #get(path: string): FakeEntry {
    const entry = this.#entries.get(path);
    if (entry !== undefined) return entry;
    this.#checkParent(path);
    throw new AppError('file_not_found', 'There is no such file.');
  }

  #checkParent(path: string): void {
    const parent = this.#get(parentOf(path));
    if (parent.type !== 'directory') throw new AppError('file_wrong_type', 'A part of the path is no directory.');
  }

  #makeParents(path: string): void {
    const parent = parentOf(path);
    const there = this.#entries.get(parent);
    if (there?.type === 'directory') return;
    if (there !== undefined) throw new AppError('file_wrong_type', 'A part of the path is no directory.');
    this.#makeParents(parent);
    this.#put(parent, 'directory', '', 0o755);
    this.#tell('created', parent);
  }

  /** Where a path leads, links on the way followed, and one at its end if asked to. */
  #resolve(path: GuestBytes, follow = true): string {
    if (path.length === 0) throw new AppError('bad_request', 'The path is empty.');
    const text = inner(path);
    let waiting = (text.startsWith('/') ? text : `${HOME}/${text}`).split('/');
    let at = '/';
    for (let links = 0; waiting.length > 0; ) {
      const [part = '', ...rest] = waiting;
      waiting = rest;
      if (part === '' || part === '.') continue;
      const next = part === '..' ? parentOf(at) : below(at) + part;
      const entry = this.#entries.get(next);
      if (entry?.type === 'symlink' && (follow || rest.some((one) => one !== ''))) {
        links += 1;
        if (links > MAX_LINKS) throw new AppError('file_symlink_loop', 'Too many links.');
        waiting = [...entry.content.split('/'), ...rest];
        if (entry.content.startsWith('/')) at = '/';
      } else {
        at = next;
      }
    }
    return at;
  }

  #status(path: string, name: string): FileStatus {
    const { type, content, mode, uid, gid, modifiedMs } = this.#get(path);
    const status = { name: outer(name), type, sizeBytes: content.length, mode, uid, gid, modifiedMs };
    return type === 'symlink' ? { ...status, linkTarget: outer(content) } : status;
  }
}

function idOf(who: string): number {
  if (/^\d+$/.test(who)) return Number(who);
  const known: Readonly<Record<string, number>> = { root: 0, user: 1000, nobody: 65_534, nogroup: 65_534 };
  const id = known[who];
  if (id === undefined) throw new AppError('bad_request', `There is no ${who} in the guest.`);
  return id;
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  if (bytes.length > 0) yield bytes;
}
