import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { findBuilds, keepBuild } from './kept-builds.ts';

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
