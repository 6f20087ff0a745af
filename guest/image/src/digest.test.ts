import { chmod, mkdir, mkdtemp, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { digestFile, digestTree, digestValue } from './digest.ts';

describe('digestValue', () => {
  test('does not depend on the order of keys', () => {
    expect(digestValue({ a: 1, b: { c: 2, d: 3 } })).toBe(digestValue({ b: { d: 3, c: 2 }, a: 1 }));
  });

  test('depends on the order of lists and on every value', () => {
    expect(digestValue([1, 2])).not.toBe(digestValue([2, 1]));
    expect(digestValue({ a: 1 })).not.toBe(digestValue({ a: '1' }));
  });

  test('stays what it is: caches and snapshots are found by it', () => {
    expect(digestValue({ b: [1, 'x'], a: null })).toBe(
      'c22cb7b0353770e2b38094af641143ebf008ddf2d1f2dedb9d875996fcf245fa',
    );
  });
});

describe('digests of files', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'digest-'));
    await mkdir(join(dir, 'sub'));
    await writeFile(join(dir, 'sub/b'), 'content');
    await writeFile(join(dir, 'a'), '');
    await symlink('a', join(dir, 'link'));
  });
  afterEach(() => rm(dir, { recursive: true }));

  test('a file’s is plain SHA-256', async () => {
    expect(await digestFile(join(dir, 'a'))).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');
  });

  test('a tree’s does not change with times', async () => {
    const before = await digestTree(dir);
    await utimes(join(dir, 'a'), 1, 1);
    expect(await digestTree(dir)).toBe(before);
  });

  test.each([
    ['content', () => writeFile(join(dir, 'sub/b'), 'other')],
    ['a name', () => writeFile(join(dir, 'new'), '')],
    ['the executable bit', () => chmod(join(dir, 'a'), 0o755)],
    ['where a link leads', () => rm(join(dir, 'link')).then(() => symlink('sub', join(dir, 'link')))],
  ])('a tree’s changes with %s', async (_what, change) => {
    const before = await digestTree(dir);
    await change();
    expect(await digestTree(dir)).not.toBe(before);
  });

  test('a tree’s leaves out what it is told to', async () => {
    const keep = (path: string) => path !== 'sub';
    const before = await digestTree(dir, { keep });
    await writeFile(join(dir, 'sub/b'), 'other');
    expect(await digestTree(dir, { keep })).toBe(before);
  });
});
