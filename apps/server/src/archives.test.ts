/** What who runs the installation is told of a place for archives that cannot be used. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AppError } from '@space/core';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { faultOf, openArchives } from './archives.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-archives-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function toldOf(path: string): Promise<string[]> {
  const told: string[] = [];
  await openArchives({ default: { kind: 'folder', path } }, (message) => told.push(message));
  return told;
}

it('nothing of a folder that can be written', async () => {
  expect(await toldOf(folder)).toEqual([]);
});

it('the folder that is not there, and how to make it', async () => {
  const path = join(folder, 'missing');
  expect(await toldOf(path)).toEqual([
    expect.stringMatching(`archives "default": there is no folder ${path}. .*make it`),
  ]);
});

it('what else is in the way', async () => {
  await writeFile(join(folder, '.staged'), '');
  expect(await toldOf(folder)).toEqual([expect.stringContaining(folder)]);
});

it('who must be able to write it, where nobody may', async () => {
  const system = Object.assign(new Error('EACCES: permission denied'), { code: 'EACCES', syscall: 'mkdir' });
  const thrown = new AppError('archive_unavailable', 'It failed.', { cause: system });
  const told = faultOf({ kind: 'folder', path: '/mnt/archive' }, thrown, 'space-node');
  expect(told).toContain('space-node must be able to write /mnt/archive');
  expect(told).toContain('Do: chown space-node /mnt/archive');
});
