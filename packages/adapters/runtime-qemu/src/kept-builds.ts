/**
 * The builds of the VMM that a platform has ever run, each in a folder of its own beside the vaults: device state is only
 * loaded by the build that saved it, so what the snapshots of a platform need stays with them when set-up brings another one.
 *
 *     <folder>/<name>/build.json    what it is, and how it is started from its folder
 *                     needed        touched when it was last needed
 *                     root/         the program, its loader, libraries and firmware
 *
 * One that no snapshot and no running VM needs any more is kept for some time: an archive may still come back. Then it goes; its
 * name first, so that one that goes is none.
 */
import { copyFile, link, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { z } from 'zod';
import { nameOfBuild, type VmmBuild } from './options.ts';
import type { UnpackedVmm } from './vmm-programs.ts';

export interface VmmBuilds {
  /** Of new VMs. */
  readonly present: VmmBuild;
  readonly earlier: readonly VmmBuild[];
}

/** An argument is text, or leads into the folder of the build: `{"inside": "lib/ld.so"}`. */
const argument = z.union([z.string(), z.strictObject({ inside: z.array(z.string()) })]);
const noteSchema = z.strictObject({
  format: z.literal(1),
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  version: z.string(),
  argv: z.array(argument).min(1),
});
type Note = z.infer<typeof noteSchema>;

const NOTE = 'build.json';
const NEEDED = 'needed';
export const UNNEEDED_KEPT_DAYS = 30;
const UNNEEDED_KEPT_MS = UNNEEDED_KEPT_DAYS * 24 * 60 * 60 * 1000;
const STAGED = '.staged-';

/** By root, with the lock held: the present build is put beside the earlier ones, unless it is there. Returns all. */
export async function keepBuild(folder: string, vmm: UnpackedVmm): Promise<VmmBuilds> {
  await mkdir(folder, { recursive: true, mode: 0o755 });
  for (const name of await readdir(folder))
    if (name.startsWith(STAGED)) await rm(join(folder, name), { recursive: true });
  const place = join(folder, nameOfBuild(vmm));
  if (!(await exists(place))) {
    const staged = join(folder, `${STAGED}${nameOfBuild(vmm)}`);
    await mkdir(staged, { mode: 0o755 });
    await copyTree(vmm.root, join(staged, 'root'));
    await writeFile(join(staged, NOTE), `${JSON.stringify(noteOf(vmm), null, 2)}\n`, { mode: 0o644, flush: true });
    await rename(staged, place);
  }
  return findBuilds(folder, vmm);
}

/** Those that are kept, and whole. Throws when the present one is not. */
export async function findBuilds(folder: string, { digest }: Pick<UnpackedVmm, 'digest'>): Promise<VmmBuilds> {
  const names = (await readdir(folder)).filter((name) => !name.startsWith(STAGED));
  const read = await Promise.allSettled(names.map((name) => readBuild(join(folder, name))));
  // What one of them is not whole for is refused by name.
  const builds = read.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const present = builds.find((build) => build.digest === digest);
  if (present === undefined) throw new Error(`The VMM of ${digest} is not in ${folder}: start the platform again.`);
  return { present, earlier: builds.filter((build) => build !== present) };
}

/**
 * By root: what is needed now is marked so, and what has not been for long goes. Returns what went wrong; one that cannot be
 * looked at or removed keeps no other.
 */
export async function dropUnneeded(
  folder: string,
  needed: ReadonlySet<string>,
  nowMs = Date.now(),
): Promise<readonly string[]> {
  const failed: string[] = [];
  for (const name of await readdir(folder)) {
    if (name.startsWith(STAGED)) continue;
    await lookAt(folder, name, { needed, nowMs }).catch((thrown: unknown) => failed.push(`${name}: ${thrown}`));
  }
  return failed;
}

async function lookAt(
  folder: string,
  name: string,
  { needed, nowMs }: { readonly needed: ReadonlySet<string>; readonly nowMs: number },
): Promise<void> {
  const place = join(folder, name);
  const mark = join(place, NEEDED);
  const { digest } = await readBuild(place);
  // Before there were marks, nobody knows since when.
  if (needed.has(digest) || !(await exists(mark))) {
    await writeFile(mark, '', { mode: 0o644 });
    await utimes(mark, new Date(nowMs), new Date(nowMs));
  } else if (nowMs - (await stat(mark)).mtimeMs > UNNEEDED_KEPT_MS) {
    const doomed = join(folder, `${STAGED}${name}`);
    await rename(place, doomed);
    await rm(doomed, { recursive: true });
  }
}

async function readBuild(place: string): Promise<VmmBuild> {
  const { digest, version, argv } = noteSchema.parse(JSON.parse(await readFile(join(place, NOTE), 'utf8')));
  const root = join(place, 'root');
  return { root, digest, version, argv: argv.map((word) => textOf(word, root)) };
}

function noteOf({ root, digest, version, loaderArgv, binary, firmwareDirs }: UnpackedVmm): Note {
  const argv = [...loaderArgv, binary, ...firmwareDirs.flatMap((folder) => ['-L', folder])];
  return { format: 1, digest, version, argv: argv.map((word) => argumentOf(word, root)) };
}

/** A path, or several as the loader takes them, all inside of the folder; else text. */
function argumentOf(word: string, root: string): Note['argv'][number] {
  const parts = word.split(':');
  if (!parts.every((part) => part.startsWith(`${root}/`))) return word;
  return { inside: parts.map((part) => relative(root, part)) };
}

function textOf(word: Note['argv'][number], root: string): string {
  return typeof word === 'string' ? word : word.inside.map((path) => join(root, path)).join(':');
}

/** The files themselves where that is possible, else copies. */
async function copyTree(from: string, to: string): Promise<void> {
  await mkdir(to, { mode: 0o755 });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) await copyTree(source, target);
    else await link(source, target).catch(() => copyFile(source, target));
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
