/** Changes of names and attributes, and telling of them: what the fake file system and the real agent both do. */
import type { FilePath, GuestBytes, GuestFiles, ListedFile, WatchEvent } from '@space/core';
import { expect, test } from 'vitest';

export interface FilesUnderTest {
  readonly files: GuestFiles;
  readonly user: string;
  /** Empty, and the user's to write in. */
  readonly directory: string;
}

type WithFiles = (run: (world: FilesWorld) => Promise<void>) => () => Promise<void>;

/** How long an event may be on its way. */
const EVENT_WAIT_MS = 5_000;

export class FilesWorld {
  readonly files: GuestFiles;
  readonly user: string;
  readonly directory: string;

  constructor({ files, user, directory }: FilesUnderTest) {
    this.files = files;
    this.user = user;
    this.directory = directory;
  }

  at(name: GuestBytes): FilePath {
    const path = Buffer.concat([Buffer.from(`${this.directory}/`), Buffer.from(name as string)]);
    return { path: typeof name === 'string' ? path.toString() : Uint8Array.from(path), user: this.user };
  }

  write(name: GuestBytes, more: { ifAbsent?: boolean; sha256?: string; mode?: number } = {}) {
    return this.files.writeFile({ ...this.at(name), ...more }, content());
  }

  list(name = '', depth = 1): Promise<ListedFile[]> {
    const path = name === '' ? { path: this.directory, user: this.user } : this.at(name);
    return Array.fromAsync(this.files.list({ ...path, depth }));
  }

  move(from: GuestBytes, to: GuestBytes, overwrite?: boolean) {
    const more = overwrite === undefined ? {} : { overwrite };
    return this.files.moveFile({ from: this.at(from).path, to: this.at(to).path, user: this.user, ...more });
  }
}

async function* content(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('content');
}

export function changeCases(withFiles: WithFiles): void {
  test.each([
    ['a newline', 'a\nb'],
    ['a leading dash', '-rf'],
    ['a space', ' '],
    ['what is no UTF-8', Uint8Array.of(0xff, 0x61)],
    ['half of a character', Uint8Array.of(0xc3)],
  ])('a name of %s is written, listed, read, moved and removed', (_, name) =>
    withFiles(async (world) => {
      const { files } = world;
      await world.write(name);
      const [entry] = await world.list();
      expect(entry).toMatchObject({ name, path: name, type: 'file' });
      expect((await files.readFile(world.at(entry?.name ?? ''))).status.sizeBytes).toBe(7);
      expect((await files.stat(world.at(name))).name).toEqual(name);
      await world.move(name, 'plain');
      await world.move('plain', name);
      expect(await files.removeFile(world.at(name))).toBe(1);
      expect(await world.list()).toEqual([]);
    })(),
  );

  test(
    'a write keeps to its conditions, or changes nothing',
    withFiles(async (world) => {
      const sha256 = 'ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73';
      await expect(world.write('f', { sha256: '0'.repeat(64) })).rejects.toMatchObject({ code: 'digest_mismatch' });
      // What was written so far goes a moment after the answer.
      await expect.poll(() => world.list(), { timeout: 5_000 }).toEqual([]);
      await world.write('f', { ifAbsent: true, sha256, mode: 0 });
      expect(await world.files.stat(world.at('f'))).toMatchObject({ mode: 0, sizeBytes: 7 });
      await expect(world.write('f', { ifAbsent: true })).rejects.toMatchObject({ code: 'file_exists' });
    }),
  );

  test(
    'directories are made, with parents and mode when asked',
    withFiles(async (world) => {
      const { files } = world;
      await expect(files.makeDirectory(world.at('a/b'))).rejects.toMatchObject({ code: 'file_not_found' });
      expect(await files.makeDirectory({ ...world.at('a/b'), parents: true, mode: 0o1777 })).toMatchObject({
        type: 'directory',
        mode: 0o1777,
      });
      await expect(files.makeDirectory(world.at('a/b'))).rejects.toMatchObject({ code: 'file_exists' });
      expect((await files.makeDirectory({ ...world.at('a/b'), parents: true })).mode).toBe(0o1777);
      await world.write('f');
      await expect(files.makeDirectory({ ...world.at('f/g'), parents: true })).rejects.toMatchObject({
        code: 'file_wrong_type',
      });
    }),
  );

  test(
    'a listing goes to its depth, each directory before what is in it, and follows no link',
    withFiles(async (world) => {
      await world.write('b/c/d');
      await world.write('a');
      await world.write('b.txt');
      await world.files.makeSymlink({ ...world.at('b/up'), target: '..' });
      const paths = async (depth: number) => (await world.list('', depth)).map(({ path }) => path);
      expect(await paths(1)).toEqual(['a', 'b', 'b.txt']);
      expect(await paths(2)).toEqual(['a', 'b', 'b/c', 'b/up', 'b.txt']);
      expect(await paths(16)).toEqual(['a', 'b', 'b/c', 'b/c/d', 'b/up', 'b.txt']);
      await expect(world.list('a')).rejects.toMatchObject({ code: 'file_wrong_type' });
    }),
  );

  test(
    'a move replaces a file unless told otherwise, and refuses by name',
    withFiles(async (world) => {
      await world.write('a');
      await world.write('b');
      await world.write('full/x');
      await world.files.makeDirectory(world.at('directory'));
      await expect(world.move('a', 'b', false)).rejects.toMatchObject({ code: 'file_exists' });
      await world.move('a', 'b');
      await expect(world.move('none', 'c')).rejects.toMatchObject({ code: 'file_not_found' });
      await expect(world.move('directory', 'full')).rejects.toMatchObject({ code: 'directory_not_empty' });
      await expect(world.move('b', 'directory')).rejects.toMatchObject({ code: 'file_wrong_type' });
      await expect(world.move('full', 'full/y')).rejects.toMatchObject({ code: 'bad_request' });
      await world.move('full', 'directory');
      expect((await world.list('', 2)).map(({ path }) => path)).toEqual(['b', 'directory', 'directory/x']);
    }),
  );

  test(
    'a removal takes an entry itself, and all in it only when asked',
    withFiles(async (world) => {
      const { files } = world;
      await world.write('kept/f');
      await world.write('tree/a/f');
      await files.makeSymlink({ ...world.at('tree/link'), target: '../kept' });
      await expect(files.removeFile(world.at('tree'))).rejects.toMatchObject({ code: 'directory_not_empty' });
      expect(await files.removeFile({ ...world.at('tree'), recursive: true })).toBe(4);
      await expect(files.removeFile(world.at('tree'))).rejects.toMatchObject({ code: 'file_not_found' });
      expect((await world.list('', 2)).map(({ path }) => path)).toEqual(['kept', 'kept/f']);
    }),
  );

  test(
    'a link is told as it is written, followed or not, and a circle has its own error',
    withFiles(async (world) => {
      const { files } = world;
      const target = Uint8Array.of(0x66, 0xff);
      expect(await files.makeSymlink({ ...world.at('odd'), target })).toMatchObject({ linkTarget: target });
      await world.write('file');
      await files.makeSymlink({ ...world.at('link'), target: 'file' });
      expect(await files.stat(world.at('link'))).toMatchObject({ type: 'file', name: 'link' });
      const link = { type: 'symlink', linkTarget: 'file' };
      expect(await files.stat({ ...world.at('link'), follow: false })).toMatchObject(link);
      await expect(files.makeSymlink({ ...world.at('link'), target: 'x' })).rejects.toMatchObject({
        code: 'file_exists',
      });
      await files.makeSymlink({ ...world.at('circle'), target: 'circle' });
      await expect(files.readFile(world.at('circle'))).rejects.toMatchObject({ code: 'file_symlink_loop' });
    }),
  );

  test(
    'a mode is set, 0000 too, and a user or group that is not there is a bad_request',
    withFiles(async (world) => {
      const { files } = world;
      await world.write('f');
      expect(await files.setAttributes({ ...world.at('f'), mode: 0o4711 })).toMatchObject({ mode: 0o4711 });
      expect(await files.setAttributes({ ...world.at('f'), mode: 0 })).toMatchObject({ mode: 0 });
      const nobody = { ...world.at('f'), owner: 'nobody-at-all' };
      await expect(files.setAttributes(nobody)).rejects.toMatchObject({ code: 'bad_request' });
    }),
  );
}

/** Of guests whose file system has them. */
export function xattrCases(withFiles: WithFiles): void {
  test(
    'extended attributes are set, listed, read and removed',
    withFiles(async (world) => {
      const { files } = world;
      await world.write('f');
      const name = Buffer.from('user.\xff', 'latin1');
      await files.setXattr({ ...world.at('f'), name: 'user.b' }, Buffer.from('text'));
      await files.setXattr({ ...world.at('f'), name: Uint8Array.from(name) }, Uint8Array.of(0, 255));
      expect(await files.xattrs(world.at('f'))).toEqual(['user.b', Uint8Array.from(name)]);
      const value = await files.xattr({ ...world.at('f'), name: Uint8Array.from(name) });
      expect(Uint8Array.from(value)).toEqual(Uint8Array.of(0, 255));
      await files.removeXattr({ ...world.at('f'), name: 'user.b' });
      await expect(files.xattr({ ...world.at('f'), name: 'user.b' })).rejects.toMatchObject({
        code: 'attribute_not_found',
      });
      await expect(files.setXattr({ ...world.at('f'), name: 'none.b' }, Buffer.alloc(0))).rejects.toMatchObject({
        code: 'file_unsupported',
      });
    }),
  );
}

export function watchCases(withFiles: WithFiles): void {
  test(
    'a watch is ready first, then tells of what happens, moves as one',
    withFiles(async (world) => {
      const { files } = world;
      await files.makeDirectory(world.at('inner'));
      const events = new Events(files.watch({ path: world.directory, user: world.user, recursive: true }));
      expect(await events.next()).toEqual({ kind: 'ready' });
      await files.makeSymlink({ ...world.at('inner/a'), target: 'x' });
      expect(await events.next()).toEqual({ kind: 'created', path: 'inner/a', directory: false });
      await world.move('inner/a', 'b');
      expect(await events.next()).toEqual({ kind: 'moved', from: 'inner/a', to: 'b', directory: false });
      await files.removeFile(world.at('b'));
      expect(await events.next()).toEqual({ kind: 'removed', path: 'b', directory: false });
      await files.makeDirectory(world.at('new'));
      expect(await events.next()).toEqual({ kind: 'created', path: 'new', directory: true });
      await events.end();
    }),
  );

  test(
    'a watch ends with the error of a directory that is gone, and by its signal',
    withFiles(async (world) => {
      const { files } = world;
      await files.makeDirectory(world.at('d'));
      const events = new Events(files.watch(world.at('d')));
      await events.next();
      await files.removeFile(world.at('d'));
      await expect(events.next()).rejects.toMatchObject({ code: 'file_not_found' });
      const controller = new AbortController();
      const watched = new Events(files.watch({ path: world.directory, user: world.user }, controller.signal));
      await watched.next();
      controller.abort(new Error('enough'));
      await expect(watched.next()).rejects.toThrow('enough');
      await world.write('f');
      await expect(new Events(files.watch(world.at('f'))).next()).rejects.toMatchObject({ code: 'file_wrong_type' });
    }),
  );
}

class Events {
  readonly #iterator: AsyncIterator<WatchEvent>;

  constructor(events: AsyncIterable<WatchEvent>) {
    this.#iterator = events[Symbol.asyncIterator]();
  }

  async next(): Promise<WatchEvent> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error('no event came')), EVENT_WAIT_MS);
    try {
      const { done, value } = await Promise.race([this.#iterator.next(), late.promise]);
      if (done) throw new Error('the watch ended without an error');
      return value;
    } finally {
      clearTimeout(timer);
    }
  }

  async end(): Promise<void> {
    await this.#iterator.return?.();
  }
}
