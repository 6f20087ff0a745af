/** Folders that root makes for others, who may have put anything in them. Needs root, as the platform does. */
import { mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { databaseSocketDirOf, livesFolderOf, makeDataFolder, makeFolders, removeRunFolder } from './places.ts';
import { findUsers } from './users.ts';

it('hands over the database of an earlier platform, and nothing that a link leads to', async () => {
  const folder = await mkdtemp('/var/tmp/space-places-');
  const config = { dataDir: join(folder, 'data'), runDir: join(folder, 'run') };
  const users = await findUsers();
  try {
    await mkdir(join(config.dataDir, 'postgres/base'), { recursive: true });
    await writeFile(join(config.dataDir, 'postgres/base/1'), '');
    const outside = join(folder, 'outside');
    await mkdir(outside);
    await writeFile(join(outside, 'passwd'), '');
    await makeDataFolder(config);
    await makeFolders(config, users);
    expect((await stat(join(config.dataDir, 'control/postgres/base/1'))).uid).toBe(users.control.uid);
    await symlink(outside, join(config.dataDir, 'control/link'));
    await symlink(join(folder, 'nothing'), join(config.dataDir, 'control/dangling'));
    await makeFolders(config, users);
    expect((await stat(outside)).uid).toBe(0);
    expect((await stat(join(outside, 'passwd'))).uid).toBe(0);
  } finally {
    await rm(folder, { recursive: true });
  }
});

it('the run folder goes with its run, unless a VMM or a database server is left for the next start', async () => {
  const folder = await mkdtemp('/var/tmp/space-places-');
  const config = { dataDir: join(folder, 'data'), runDir: join(folder, 'run') };
  try {
    await makeDataFolder(config);
    await makeFolders(config, await findUsers());
    for (const left of [join(livesFolderOf(config), 'lif_1'), join(databaseSocketDirOf(config), '.s.PGSQL.5432')]) {
      await mkdir(left, { recursive: true });
      expect(await removeRunFolder(config)).toBe(false);
      expect((await stat(left)).isDirectory()).toBe(true);
      await rm(left, { recursive: true });
    }
    await writeFile(join(config.runDir, 'node/link'), '');
    expect(await removeRunFolder(config)).toBe(true);
    await expect(stat(config.runDir)).rejects.toMatchObject({ code: 'ENOENT' });
    expect(await removeRunFolder(config)).toBe(true);
  } finally {
    await rm(folder, { recursive: true });
  }
});
