/**
 * What is built is data: the three recipes in `recipes/`. They are parsed here, once, and trusted afterwards.
 * Strings that end as arguments of other programs are held to narrow alphabets.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

const suite = z.enum(['bookworm', 'trixie']);
const packageName = z.string().regex(/^[a-z0-9][a-z0-9+.-]+$/);
const treePath = z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.+/-]*$/);
const guestPath = z
  .string()
  .regex(/^\/[A-Za-z0-9_.+/*-]+$/)
  .refine((path) => !path.split('/').includes('..'), 'must not contain ..');
const moduleName = z.string().regex(/^[a-z0-9_]+$/);

const vmmRecipe = z
  .strictObject({
    suite,
    package: packageName,
    /** Paths inside the built tree. */
    binary: treePath,
    loader: treePath,
    libraryDirs: z.array(treePath).min(1),
    /** Firmware folder to the files kept in it; everything else is dropped. */
    firmware: z.record(treePath, z.array(treePath).min(1)),
  })
  .readonly();

const kernelRecipe = z
  .strictObject({
    suite,
    package: packageName,
    /** Loaded in this order by the agent; what they depend on is added in front of them. */
    modules: z.array(moduleName).min(1),
  })
  .readonly();

const baseRecipe = z
  .strictObject({
    name: z.string().regex(/^[a-z][a-z0-9-]{0,62}$/),
    suite,
    packages: z.array(packageName).min(1),
    /** Path patterns that dpkg does not unpack, and exceptions from them. They stay in force in the guest. */
    exclude: z.array(guestPath),
    include: z.array(guestPath),
    users: z.array(
      z.strictObject({
        name: z.string().regex(/^[a-z][a-z0-9-]{0,30}$/),
        uid: z.int().min(1000).max(59_999),
        shell: guestPath,
        passwordlessSudo: z.boolean(),
      }),
    ),
    /** Files written last, replacing what packages or the build left there. */
    files: z.record(guestPath, z.string()),
    /** Symbolic links, written with the files: where, and what they name. */
    links: z.record(guestPath, guestPath),
    disk: z.strictObject({
      sizeMiB: z.int().min(512).max(16_384),
      /** How far the file system can grow while it is mounted. */
      maxSizeGiB: z.int().min(64).max(1024),
      /** Named one by one, so that the result does not depend on the defaults of the host's mke2fs. */
      features: z.array(z.string().regex(/^[a-z0-9_]+$/)).min(1),
      label: z.string().regex(/^[a-z0-9-]{1,16}$/),
      uuid: z.uuid(),
      hashSeed: z.uuid(),
    }),
  })
  .readonly();

export type VmmRecipe = z.infer<typeof vmmRecipe>;
export type KernelRecipe = z.infer<typeof kernelRecipe>;
export type BaseRecipe = z.infer<typeof baseRecipe>;

export const parseVmmRecipe = (value: unknown): VmmRecipe => vmmRecipe.parse(value);
export const parseKernelRecipe = (value: unknown): KernelRecipe => kernelRecipe.parse(value);
export const parseBaseRecipe = (value: unknown): BaseRecipe => baseRecipe.parse(value);

export const recipeDir = join(import.meta.dirname, '../recipes');

export async function readRecipe<T>(name: string, parse: (value: unknown) => T): Promise<T> {
  const path = join(recipeDir, name);
  try {
    return parse(JSON.parse(await readFile(path, 'utf8')));
  } catch (cause) {
    throw new Error(`The recipe ${path} is not valid`, { cause });
  }
}
