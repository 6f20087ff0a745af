import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { dropUnneeded, findBuilds, keepBuild, UNNEEDED_KEPT_DAYS } from './kept-builds.ts';

const FIRST = 'a'.repeat(64);
const SECOND = 'b'.repeat(64);

/** As set-up unpacks it. */
async function unpacked(folder: string, digest: string) {
  const root = join(folder, 'cache', digest, 'root');
  for (const path of ['lib', 'usr/lib', 'bin', 'share']) await mkdir(join(root, path), { recursive: true });
  await writeFile(join(root, 'bin/vmm'), `the program of ${digest}`, { mode: 0o755 });
  await writeFile(join(root, 'lib/ld.so'), 'the loader', { mode: 0o755 });
  return {
    ...{ root, digest, version: '1' },
    loaderArgv: [join(root, 'lib/ld.so'), '--library-path', `${join(root, 'lib')}:${join(root, 'usr/lib')}`],
    binary: join(root, 'bin/vmm'),
    firmwareDirs: [join(root, 'share')],
  };
}

async function temporary(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'builds-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

it('keeps every build that was ever the present one, each started from its own folder', async () => {
  const folder = await temporary();
  const kept = join(folder, 'vmm');
  await keepBuild(kept, await unpacked(folder, FIRST));
  const { present, earlier } = await keepBuild(kept, await unpacked(folder, SECOND));
  await rm(join(folder, 'cache'), { recursive: true });
  expect(await findBuilds(kept, { digest: SECOND })).toEqual({ present, earlier });
  expect([present.digest, ...earlier.map(({ digest }) => digest)]).toEqual([SECOND, FIRST]);
  for (const build of [present, ...earlier]) {
    const { root } = build;
    expect(root.startsWith(kept)).toBe(true);
    expect(build.argv).toEqual([
      ...[join(root, 'lib/ld.so'), '--library-path', `${join(root, 'lib')}:${join(root, 'usr/lib')}`],
      ...[join(root, 'bin/vmm'), '-L', join(root, 'share')],
    ]);
    expect(await readFile(join(root, 'bin/vmm'), 'utf8')).toBe(`the program of ${build.digest}`);
    expect((await stat(join(root, 'bin/vmm'))).mode & 0o777).toBe(0o755);
  }
});

it('takes what was cut short for nothing, and says so when the present one is not there', async () => {
  const folder = await temporary();
  const kept = join(folder, 'vmm');
  const first = await unpacked(folder, FIRST);
  const second = await unpacked(folder, SECOND);
  await keepBuild(kept, first);
  await mkdir(join(kept, `.staged-${SECOND.slice(0, 32)}`, 'root'), { recursive: true });
  await expect(findBuilds(kept, second)).rejects.toThrow(/not in/);
  expect(await findBuilds(kept, first)).toMatchObject({ present: { digest: FIRST }, earlier: [] });
  expect((await keepBuild(kept, second)).present.digest).toBe(SECOND);
  expect((await readdir(kept)).toSorted()).toEqual([FIRST.slice(0, 32), SECOND.slice(0, 32)]);
});

const DAY_MS = 24 * 60 * 60 * 1000;
const LONG_MS = (UNNEEDED_KEPT_DAYS + 1) * DAY_MS;

it('drops a build that nothing has needed for long, and none that is needed or was of late', async () => {
  const folder = await temporary();
  const kept = join(folder, 'vmm');
  const digests = async () => (await readdir(kept)).toSorted();
  for (const digest of [FIRST, SECOND]) await keepBuild(kept, await unpacked(folder, digest));
  const begin = Date.now();
  const both = await digests();
  const look = (needed: readonly string[], afterMs: number) => dropUnneeded(kept, new Set(needed), begin + afterMs);
  // Since when it is not needed is not known yet.
  expect(await look([SECOND], 0)).toEqual([]);
  expect(await look([FIRST, SECOND], LONG_MS)).toEqual([]);
  expect(await look([SECOND], 2 * LONG_MS - 2 * DAY_MS)).toEqual([]);
  expect(await digests()).toEqual(both);
  expect(await look([SECOND], 2 * LONG_MS)).toEqual([]);
  expect(await digests()).toEqual([SECOND.slice(0, 32)]);
  expect((await findBuilds(kept, { digest: SECOND })).earlier).toEqual([]);
});

it('is kept from no removal by what it cannot read', async () => {
  const folder = await temporary();
  const kept = join(folder, 'vmm');
  await keepBuild(kept, await unpacked(folder, FIRST));
  await mkdir(join(kept, '0-broken'));
  expect((await keepBuild(kept, await unpacked(folder, FIRST))).earlier).toEqual([]);
  const look = (afterMs: number) => dropUnneeded(kept, new Set(), Date.now() + afterMs);
  expect(await look(0)).toEqual([expect.stringContaining('0-broken')]);
  expect(await look(LONG_MS)).toEqual([expect.stringContaining('0-broken')]);
  expect(await readdir(kept)).toEqual(['0-broken']);
});
