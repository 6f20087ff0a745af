/**
 * A recipe of a template on this machine: a folder with `template.json`, which is what the API takes, and the name and size beside it.
 * A copy step has no `files` there: what it copies lies in the folder, and is packed and brought.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { type TemplateRecipe, uploadTemplateFiles } from '@space/sdk';
import type { Context } from './context.ts';
import { usage } from './errors.ts';

const FILE = 'template.json';
/** Those that come along, by name. */
const KNOWN = join(import.meta.dirname, '../../../packages/e2b/templates');
const HASH = /^[0-9a-f]{64}$/;
const MAX_ARCHIVE_BYTES = 512 * 2 ** 20;
/** So that an archive depends on what is in it, and on nothing else. */
const SAME = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner', '--format=gnu'];

export interface RecipeFile {
  readonly folder: string;
  readonly name: string | undefined;
  readonly size: { readonly vcpus?: number; readonly memoryMib?: number; readonly diskMib?: number } | undefined;
  readonly recipe: TemplateRecipe;
}

/** A folder, a file, or the name of one that comes along. */
export async function readRecipe(given: string): Promise<RecipeFile> {
  const known = /^[a-z][a-z-]*$/.test(given) && !(await isThere(given)) ? join(KNOWN, given) : given;
  const path = resolve((await isDirectory(known)) ? join(known, FILE) : known);
  const text = await readFile(path, 'utf8').catch(() => {
    throw usage(`There is no recipe ${given}.`, `Give a folder with ${FILE}, or the name of one that comes along.`);
  });
  const { name, size, ...recipe } = parse(text, path);
  return { folder: dirname(path), name, size, recipe };
}

type Parsed = TemplateRecipe & Pick<RecipeFile, 'name' | 'size'>;

/** What is in it, the server checks. */
function parse(text: string, path: string): Parsed {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Parsed;
  } catch {
    // Said below.
  }
  throw usage(`${basename(path)} is no JSON object.`, 'Correct it; the guide of templates shows one.');
}

/** The recipe with what its copy steps copy, which is there then. */
export async function withFiles({ folder, recipe }: RecipeFile, context: Context): Promise<TemplateRecipe> {
  const { connection, out } = context;
  const steps: NonNullable<TemplateRecipe['steps']> = [];
  for (const step of recipe.steps ?? []) {
    if (step.type !== 'copy' || step.files !== undefined) steps.push(step);
    else {
      const archive = await pack(folder, step.from);
      const files = createHash('sha256').update(archive).digest('hex');
      out.note(`bringing ${step.from}`);
      await uploadTemplateFiles(files, archive, connection);
      steps.push({ ...step, files });
    }
  }
  return { ...recipe, ...(await imageBrought(folder, recipe.from, context)), steps };
}

/** An image in a file beside the recipe is brought; a hash names one that was. */
async function imageBrought(folder: string, from: TemplateRecipe['from'], { connection, out }: Context) {
  if (typeof from !== 'object' || HASH.test(from.archive)) return {};
  const path = resolve(folder, from.archive);
  const archive = await readFile(path).catch(() => {
    throw usage(`There is no ${from.archive} beside the recipe.`, 'Save the image to that file.');
  });
  const hash = createHash('sha256').update(archive).digest('hex');
  out.note(`bringing ${from.archive}`);
  await uploadTemplateFiles(hash, archive, connection);
  return { from: { archive: hash } };
}

async function pack(folder: string, from: string): Promise<Buffer> {
  const place = resolve(folder, from);
  if (place !== folder && !place.startsWith(`${folder}/`)) {
    throw usage(`${from} lies outside of the folder of the recipe.`, 'Copy what lies beside it.');
  }
  if (!(await isThere(place))) throw usage(`There is no ${from} beside the recipe.`, 'Correct the step.');
  const relative = place === folder ? '.' : place.slice(folder.length + 1);
  const options = { encoding: 'buffer', maxBuffer: MAX_ARCHIVE_BYTES } as const;
  return (await promisify(execFile)('tar', ['-C', folder, ...SAME, '-cf', '-', '--', relative], options)).stdout;
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
