import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { parseBaseRecipe, parseKernelRecipe, parseVmmRecipe, readRecipe, recipeDir } from './recipe.ts';

describe('the recipes of this checkout', () => {
  test('are valid', async () => {
    await expect(readRecipe('vmm.json', parseVmmRecipe)).resolves.toMatchObject({ package: 'qemu-system-x86' });
    await expect(readRecipe('kernel.json', parseKernelRecipe)).resolves.toMatchObject({ suite: 'bookworm' });
    await expect(readRecipe('base.json', parseBaseRecipe)).resolves.toMatchObject({ name: 'base' });
  });

  test('load virtio_ring before virtio', async () => {
    const { modules } = await readRecipe('kernel.json', parseKernelRecipe);
    expect(modules.slice(0, 2)).toEqual(['virtio_ring', 'virtio']);
  });

  test('say which file is wrong when one is', async () => {
    await expect(readRecipe('base.json', parseVmmRecipe)).rejects.toThrow(/recipes\/base\.json is not valid/);
  });
});

describe('parseBaseRecipe', () => {
  let base: Record<string, unknown>;
  beforeAll(async () => {
    base = JSON.parse(await readFile(join(recipeDir, 'base.json'), 'utf8')) as Record<string, unknown>;
  });

  test.each([
    ['an option in place of a package', { packages: ['--setup-hook=x'] }],
    ['a way out of the tree', { files: { '/etc/../../etc/passwd': '' } }],
    ['a relative file', { files: { 'etc/hostname': '' } }],
    ['a link out of the tree', { links: { '/etc/../../etc/x': '/etc/passwd' } }],
    ['a relative link', { links: { '/etc/x': '../passwd' } }],
    ['a system user', { users: [{ name: 'root', uid: 0, shell: '/bin/sh', passwordlessSudo: true }] }],
    ['a suite that is not known', { suite: 'sid' }],
    ['a key that nothing reads', { kernel: 'mine' }],
  ])('refuses %s', (_what, change) => {
    expect(() => parseBaseRecipe({ ...base, ...change })).toThrow();
  });
});
