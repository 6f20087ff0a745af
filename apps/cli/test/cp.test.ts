/** Files go both ways whole and unchanged, and a hostile sandbox writes nothing but what it was asked for. */
import { chmod, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Sandbox } from '@space/sdk';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { World } from './world.ts';

const BYTES = Buffer.from(Array.from({ length: 200_000 }, (_, index) => (index * 7) & 255));

let world: World;
let sandbox: Sandbox;
let here: string;
beforeAll(async () => {
  world = await World.start();
  sandbox = await Sandbox.create({ ...world.platform.connection, name: 'box' });
});
afterAll(() => world[Symbol.asyncDispose]());
beforeEach(async () => {
  here = await mkdtemp(join(tmpdir(), 'space-cp-'));
  return () => rm(here, { recursive: true });
});

describe('a file', () => {
  it('goes there and back, byte for byte, with its mode', async () => {
    await writeFile(join(here, 'data.bin'), BYTES);
    await chmod(join(here, 'data.bin'), 0o750);
    await world.ok('cp', join(here, 'data.bin'), 'box:');
    await world.ok('cp', join(here, 'data.bin'), 'box:/srv/other.bin');
    expect((await sandbox.files.stat('data.bin')).mode).toBe('0750');
    expect(Buffer.compare(await sandbox.files.readBytes('/srv/other.bin'), BYTES)).toBe(0);
    await world.ok('cp', 'box:/srv/other.bin', here);
    await world.ok('cp', 'box:data.bin', join(here, 'new/name'));
    expect(Buffer.compare(await readFile(join(here, 'other.bin')), BYTES)).toBe(0);
    expect((await stat(join(here, 'new/name'))).mode & 0o777).toBe(0o750);
    expect((await readdir(here)).sort()).toEqual(['data.bin', 'new', 'other.bin']);
  });

  it('comes from standard input and goes to standard output', async () => {
    expect((await world.run(['cp', '-', 'box:piped'], { stdin: BYTES })).code).toBe(0);
    const { stdout } = await world.run(['cp', 'box:piped', '-']);
    expect(Buffer.compare(stdout, BYTES)).toBe(0);
  });

  it('that did not come whole leaves nothing, and what was there stays', async () => {
    await writeFile(join(here, 'kept'), 'before');
    const { code, stderr } = await world.run(['cp', 'box:missing', join(here, 'kept')]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('file_not_found')]);
    expect(await readFile(join(here, 'kept'), 'utf8')).toBe('before');
    expect((await world.run(['cp', join(here, 'none'), 'box:x'])).stderr).toContain('ENOENT');
  });
});

describe('a directory', () => {
  it('goes there and back with -r, with names of any bytes and links that stay inside', async () => {
    const odd = Buffer.concat([Buffer.from(`${here}/tree/sub/`), Buffer.of(0xff, 0x0a)]);
    await mkdir(join(here, 'tree/sub/empty'), { recursive: true });
    await writeFile(odd, 'odd');
    await writeFile(join(here, 'tree/-rf'), 'plain');
    await symlink('../-rf', join(here, 'tree/sub/link'));
    expect((await world.run(['cp', join(here, 'tree'), 'box:'])).code).toBe(2);
    await world.ok('cp', '-r', join(here, 'tree'), 'box:');
    await world.ok('cp', '-r', 'box:tree', join(here, 'back'));
    const names = await readdir(join(here, 'back/sub'), { encoding: 'buffer' });
    expect(names.map((name) => name.toString('latin1')).sort()).toEqual(['empty', 'link', '\xff\n']);
    expect(await readlink(join(here, 'back/sub/link'))).toBe('../-rf');
    expect(await readFile(join(here, 'back/sub/link'), 'utf8')).toBe('plain');
  });

  it('that may not be read says as whom it may, and leaves nothing that the next attempt would copy into', async () => {
    await sandbox.files.write('logs/denied.log', 'x');
    const problem = { code: 'file_denied', detail: 'EACCES: open: Permission denied.', status: 403, retry: 'never' };
    const real = globalThis.fetch;
    // As a real sandbox answers; the one in memory lets everybody read everything.
    vi.stubGlobal('fetch', async (...args: Parameters<typeof fetch>) =>
      /denied\.log/.test(decodeURIComponent(String(args[0]))) ? Response.json(problem, { status: 403 }) : real(...args),
    );
    try {
      const { code, stderr } = await world.run(['cp', '-r', 'box:logs', join(here, 'new/logs')]);
      expect([code, stderr]).toEqual([1, expect.stringContaining('Next: Repeat it with -u root')]);
    } finally {
      vi.unstubAllGlobals();
    }
    expect(await readdir(join(here, 'new'))).toEqual([]);
    await world.ok('cp', '-r', 'box:logs', join(here, 'new/logs'));
    expect(await readdir(join(here, 'new/logs'))).toEqual(['denied.log']);
  });

  it('of a hostile sandbox leads nobody out of the copy', async () => {
    await mkdir(join(here, 'outside'));
    await sandbox.files.write('evil/plain', 'x');
    await sandbox.files.symlink(join(here, 'outside'), 'evil/away');
    await sandbox.files.symlink('../../outside', 'evil/up');
    const first = await world.run(['cp', '-r', 'box:evil', join(here, 'copy')]);
    expect([first.code, first.stderr]).toEqual([0, expect.stringContaining('outside of what is copied: left out')]);
    expect(await readdir(join(here, 'copy'))).toEqual(['plain']);
    // A link that lies here already, where the sandbox now has a directory.
    await mkdir(join(here, 'again/evil'), { recursive: true });
    await symlink(join(here, 'outside'), join(here, 'again/evil/trap'));
    await sandbox.files.write('evil/trap/written', 'x');
    const second = await world.run(['cp', '-r', 'box:evil', join(here, 'again')]);
    expect([second.code, second.stderr]).toEqual([1, expect.stringContaining('in_the_way')]);
    expect(await readdir(join(here, 'outside'))).toEqual([]);
  });
});
