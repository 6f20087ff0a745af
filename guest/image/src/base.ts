/**
 * The base disk: a small Debian system in an ext4 image. No init and no kernel in it: the agent is PID 1 and comes
 * from the initramfs. The image is sparse, and small; the agent lets the file system grow to the disk's size.
 */
import { chmod, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { installSystem } from './debian.ts';
import { digestFile } from './digest.ts';
import type { BaseRecipe } from './recipe.ts';
import { confined, run } from './run.ts';

const note = z.strictObject({ sizeBytes: z.int().positive(), digest: z.string() }).readonly();
export type BaseNote = z.infer<typeof note>;
export const parseBaseNote = (value: unknown): BaseNote => note.parse(value);

export const baseDiskPath = (dir: string): string => join(dir, 'disk.raw');

const MIB = 1024 * 1024;
const BLOCK_BYTES = 4096;

export async function buildBase(recipe: BaseRecipe, dir: string, signal: AbortSignal): Promise<BaseNote> {
  const root = join(dir, 'rootfs');
  await installSystem({ suite: recipe.suite, packages: recipe.packages }, recipe, { dir: root, signal });
  for (const user of recipe.users) await addUser(root, user);
  for (const [path, content] of Object.entries(recipe.files)) await writeInto(root, path, content);
  for (const [path, named] of Object.entries(recipe.links)) await linkInto(root, path, named);
  await removeTraces(root);

  const disk = baseDiskPath(dir);
  await makeFileSystem(recipe.disk, root, disk);
  await run(['rm', '-rf', '--one-file-system', root]);
  return { sizeBytes: recipe.disk.sizeMiB * MIB, digest: await digestFile(disk) };
}

async function addUser(root: string, user: BaseRecipe['users'][number]): Promise<void> {
  const options = ['--create-home', '--user-group', '--uid', String(user.uid), '--shell', user.shell];
  await run(confined(['chroot', root, 'useradd', ...options, user.name]));
  if (user.passwordlessSudo) {
    await writeInto(root, `/etc/sudoers.d/${user.name}`, `${user.name} ALL=(ALL:ALL) NOPASSWD: ALL\n`, 0o440);
  }
}

/** Removed first: the build may have left a link or other permissions there. */
async function writeInto(root: string, path: string, content: string, mode = 0o644): Promise<void> {
  const target = join(root, path);
  await mkdir(dirname(target), { recursive: true });
  await rm(target, { force: true });
  await writeFile(target, content);
  await chmod(target, mode);
}

async function linkInto(root: string, path: string, named: string): Promise<void> {
  const target = join(root, path);
  await mkdir(dirname(target), { recursive: true });
  await rm(target, { force: true });
  await symlink(named, target);
}

/** What differs from build to build, tells of the host (its proxy), and serves nobody in a guest. */
async function removeTraces(root: string): Promise<void> {
  const traces = [
    'etc/apt/apt.conf.d/99mmdebstrap',
    'var/log/apt',
    'var/log/dpkg.log',
    'var/log/alternatives.log',
    'var/log/bootstrap.log',
  ];
  const caches = [
    'var/cache/ldconfig/aux-cache',
    'var/cache/debconf/config.dat-old',
    'var/cache/debconf/templates.dat-old',
  ];
  for (const path of [...traces, ...caches]) await rm(join(root, path), { recursive: true, force: true });
}

async function makeFileSystem(disk: BaseRecipe['disk'], root: string, path: string): Promise<void> {
  const extended = [
    `resize=${(disk.maxSizeGiB * 1024 * MIB) / BLOCK_BYTES}`,
    `hash_seed=${disk.hashSeed}`,
    // The image is new and sparse: neither we nor the guest's kernel need to write zeros into it.
    'assume_storage_prezeroed=1',
    'nodiscard',
  ];
  await run(['truncate', '--size', `${disk.sizeMiB}M`, path]);
  await run([
    'mke2fs',
    ...['-q', '-F', '-t', 'ext4', '-b', String(BLOCK_BYTES), '-m', '0', '-L', disk.label, '-U', disk.uuid],
    ...['-O', ['none', ...disk.features].join(','), '-E', extended.join(','), '-d', root, path],
  ]);
  await run(['e2fsck', '-f', '-n', path]);
}
