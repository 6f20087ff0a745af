import { mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { openFolderArchive } from '@space/archive-folder';
import { archivePath } from '@space/core';
import { archiveSuite, chunkKey } from '@space/testkit/archive-suite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-archive-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

archiveSuite('a folder', async () => ({
  archive: await openFolderArchive(folder),
  dispose: async () => undefined,
}));

describe('a folder with archives', () => {
  const bytes = Buffer.from('a piece');
  const key = chunkKey(bytes);

  it('that is not there, as of a share that is not mounted, is an error and is not made', async () => {
    const missing = join(folder, 'not-mounted');
    await expect(openFolderArchive(missing)).rejects.toMatchObject({ code: 'archive_unavailable' });
    expect(await readdir(folder)).toEqual([]);
    const archive = await openFolderArchive(folder);
    await rm(folder, { recursive: true });
    await expect(archive.put(key, bytes)).rejects.toMatchObject({ code: 'archive_unavailable' });
  });

  it('keeps what was put for the next process, and drops what one that was killed had in the making', async () => {
    await (await openFolderArchive(folder)).put(key, bytes);
    const [left, inTheMaking] = [join(folder, '.staged', 'left'), join(folder, '.staged', 'of-another-machine')];
    for (const path of [left, inTheMaking]) await writeFile(path, 'half');
    await utimes(left, new Date(0), new Date(0));
    const archive = await openFolderArchive(folder);
    expect(await archive.get(key, 100)).toEqual(bytes);
    expect(await readdir(join(folder, '.staged'))).toEqual(['of-another-machine']);
  });

  it('leads nowhere by a link, and waits for no pipe or folder', async () => {
    const archive = await openFolderArchive(folder);
    const path = join(folder, archivePath(key));
    await mkdir(dirname(path), { recursive: true });
    await symlink('/etc/passwd', path);
    await expect(archive.get(key, 2 ** 20)).rejects.toMatchObject({ code: 'archive_unavailable' });
    await rm(path);
    await mkdir(path);
    await expect(archive.get(key, 2 ** 20)).rejects.toMatchObject({ code: 'archive_damaged' });
    await expect(archive.put(key, bytes)).rejects.toMatchObject({ code: 'archive_unavailable' });
    expect(await readdir(join(folder, '.staged'))).toEqual([]);
  });
});
