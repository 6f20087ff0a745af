import { createHash, randomBytes } from 'node:crypto';
import type { FileStatus } from '@space/core';
import { expect, test } from 'vitest';
import { chance, eventually, type WithGuest } from './world.ts';

export function fileCases(withGuest: WithGuest): void {
  test(
    'what is written is what is read, with its digest',
    withGuest(async (world) => {
      const content = chance.bytes(65_000);
      const written = await world.write('file', content);
      expect(written).toEqual({ sizeBytes: 65_000, sha256: createHash('sha256').update(content).digest('hex') });
      expect((await world.read('file')).equals(content)).toBe(true);
      expect(await world.guest.stat(world.path('file'))).toMatchObject({
        name: 'file',
        type: 'file',
        sizeBytes: 65_000,
      });
    }),
  );

  test(
    'a file is replaced whole, and can be empty',
    withGuest(async (world) => {
      await world.write('file', 'a longer text');
      await world.write('file', 'short');
      expect(String(await world.read('file'))).toBe('short');
      await world.write('file', '');
      expect(String(await world.read('file'))).toBe('');
    }),
  );

  test(
    'ranges are read',
    withGuest(async (world) => {
      await world.write('file', '0123456789');
      expect(String(await world.read('file', { offset: 3, length: 4 }))).toBe('3456');
      expect(String(await world.read('file', { offset: 7 }))).toBe('789');
      expect(String(await world.read('file', { length: 0 }))).toBe('');
      expect(String(await world.read('file', { offset: 8, length: 100 }))).toBe('89');
      expect(String(await world.read('file', { offset: 100 }))).toBe('');
    }),
  );

  test(
    'a file that is not there is file_not_found',
    withGuest(async ({ guest, user, directory }) => {
      const missing = { path: `${directory}/no/such/file`, user };
      await expect(guest.stat(missing)).rejects.toMatchObject({ code: 'file_not_found' });
      await expect(guest.readFile(missing)).rejects.toMatchObject({ code: 'file_not_found' });
    }),
  );

  test(
    'a body that fails leaves the file as it was',
    withGuest(async (world) => {
      await world.write('file', 'before');
      const failure = new Error('the client went away');
      async function* body() {
        yield Buffer.alloc(100_000);
        throw failure;
      }
      await expect(world.guest.writeFile(world.path('file'), body())).rejects.toBe(failure);
      expect(String(await world.read('file'))).toBe('before');
    }),
  );
}

export function fileSystemCases(withGuest: WithGuest): void {
  test(
    'missing directories are made, and entries come in byte order',
    withGuest(async (world) => {
      for (const name of ['b', 'a/deep/file', 'ä', '.hidden', 'Z']) await world.write(name, name);
      expect(await world.names()).toEqual(['.hidden', 'Z', 'a', 'b', 'ä']);
      expect(String(await world.read('a/deep/file'))).toBe('a/deep/file');
    }),
  );

  test(
    'an aborted write leaves nothing behind',
    withGuest(async (world) => {
      const controller = new AbortController();
      async function* body() {
        yield Buffer.alloc(300_000);
        controller.abort(new Error('enough'));
        await new Promise((resolve) => setTimeout(resolve, 20));
        yield Buffer.alloc(1);
      }
      const writing = world.guest.writeFile(world.path('file'), body(), controller.signal);
      await expect(writing).rejects.toThrow('enough');
      await eventually(async () => (await world.names()).length === 0);
    }),
  );

  test(
    'modes are set, kept by a replacement, and 0644 by default',
    withGuest(async (world) => {
      const mode = async () => (await world.guest.stat(world.path('file'))).mode;
      await world.write('file', 'a');
      expect(await mode()).toBe(0o644);
      await world.write('file', 'b', 0o750);
      expect(await mode()).toBe(0o750);
      await world.write('file', 'c');
      expect(await mode()).toBe(0o750);
    }),
  );

  test(
    'status tells what an entry is; a link is followed by stat and not by list',
    withGuest(async (world) => {
      const before = Date.now();
      await world.write('file', 'abc');
      await world.run('ln -s file link; mkdir dir; mkfifo fifo');
      const entries: FileStatus[] = await Array.fromAsync(
        world.guest.list({ path: world.directory, user: world.user }),
      );
      const kinds = Object.fromEntries(entries.map((entry) => [entry.name, entry.type]));
      expect(kinds).toEqual({ dir: 'directory', fifo: 'other', file: 'file', link: 'symlink' });
      expect(entries.find((entry) => entry.name === 'link')?.linkTarget).toBe('file');
      const status = await world.guest.stat(world.path('link'));
      expect(status).toMatchObject({ type: 'file', sizeBytes: 3 });
      expect(Math.abs(status.modifiedMs - before)).toBeLessThan(10_000);
    }),
  );

  test(
    'a path of the wrong kind is file_wrong_type, also where a file is taken for a directory',
    withGuest(async (world) => {
      await world.write('file', 'abc');
      await world.run('mkdir dir');
      await expect(world.guest.readFile(world.path('dir'))).rejects.toMatchObject({ code: 'file_wrong_type' });
      await expect(world.write('dir', 'x')).rejects.toMatchObject({ code: 'file_wrong_type' });
      await expect(world.guest.stat(world.path('file/x'))).rejects.toMatchObject({ code: 'file_wrong_type' });
    }),
  );

  test(
    'names that are no UTF-8 are listed, and long listings are whole',
    withGuest(async (world) => {
      await world.run('for i in $(seq 1000); do : > $i; done; : > $(printf "\\377")');
      expect(await world.names()).toHaveLength(1_001);
    }),
  );

  test(
    'a large file goes through both ways',
    withGuest(async (world) => {
      const block = new Uint8Array(randomBytes(1_000_000));
      async function* body() {
        for (let count = 0; count < 30; count += 1) yield block;
      }
      const written = await world.guest.writeFile(world.path('file'), body());
      const hash = createHash('sha256');
      const { status, body: back } = await world.guest.readFile(world.path('file'));
      for await (const part of back) hash.update(part);
      expect(status.sizeBytes).toBe(30_000_000);
      expect(hash.digest('hex')).toBe(written.sha256);
    }),
  );
}
