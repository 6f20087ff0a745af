import { mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { provideArtefact } from './cache.ts';
import { KEPT_UNUSED_DAYS, pruneCache } from './prune.ts';

let cache: string;
beforeEach(async () => {
  cache = await mkdtemp(join(tmpdir(), 'cache-'));
  vi.stubEnv('SPACE_CACHE', cache);
  for (const folder of ['assets', 'tmp']) await mkdir(join(cache, folder));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(cache, { recursive: true });
});

const NOW = Date.UTC(2030, 0, 1);
const lastUsed = (days: number) => new Date(NOW - days * 24 * 60 * 60 * 1000);
const OLD = KEPT_UNUSED_DAYS + 1;

async function artefact(name: string, days: number): Promise<string> {
  const folder = join(cache, name);
  await mkdir(join(folder, 'root'), { recursive: true });
  await writeFile(join(folder, 'root/file'), 'built');
  await writeFile(join(folder, 'artefact.json'), '{}');
  await utimes(join(folder, 'artefact.json'), lastUsed(days), lastUsed(days));
  return join(folder, 'root/file');
}

async function assets(name: string, days: number, paths: readonly string[]): Promise<void> {
  const file = join(cache, 'assets', `${name}.json`);
  await writeFile(file, JSON.stringify({ vmm: { root: paths[0] }, others: paths, digest: 'd'.repeat(64) }));
  await utimes(file, lastUsed(days), lastUsed(days));
}

it('removes what no set in use names and nothing has used for long, and keeps the rest', async () => {
  const [shared, own, earlier] = [
    await artefact('vmm/shared', OLD),
    await artefact('base/own', OLD),
    await artefact('base/old', OLD),
  ];
  await artefact('agent/old', OLD);
  await artefact('agent/recent', 1);
  await assets('present', KEPT_UNUSED_DAYS - 1, [shared, own]);
  await assets('past', OLD, [shared, earlier]);
  const { removed, failed } = await pruneCache(NOW);
  expect(failed).toEqual([]);
  expect(removed).toEqual(['assets/past.json', 'agent/old', 'base/old']);
  expect(await readdir(join(cache, 'assets'))).toEqual(['present.json']);
  expect(await readdir(join(cache, 'vmm'))).toEqual(['shared']);
  expect(await readdir(join(cache, 'base'))).toEqual(['own']);
  expect(await readdir(join(cache, 'agent'))).toEqual(['recent']);
  expect(await readdir(join(cache, 'tmp'))).toEqual([]);
});

it('goes on past what it cannot judge, and removes nothing that a set which it cannot read may need', async () => {
  await artefact('vmm/old', OLD);
  await artefact('kernel/half', OLD);
  await rm(join(cache, 'kernel/half/artefact.json'));
  const first = await pruneCache(NOW);
  expect(first.removed).toEqual(['vmm/old']);
  expect(first.failed).toEqual([expect.stringContaining('kernel/half')]);
  await artefact('vmm/old', OLD);
  await symlink('nowhere', join(cache, 'assets/broken.json'));
  const second = await pruneCache(NOW);
  expect(second.removed).toEqual([]);
  expect(second.failed).toEqual([expect.stringContaining('assets/broken.json')]);
});

it('keeps what a build has found', async () => {
  await artefact('vmm/00000000000000000000000000000000', OLD);
  const made = {
    kind: 'vmm',
    key: '0'.repeat(64),
    parse: () => ({}),
    make: () => Promise.reject(new Error('it is there')),
  } as const;
  await provideArtefact(made);
  expect((await pruneCache(Date.now())).removed).toEqual([]);
});
