/**
 * From a sandbox to here. What a sandbox calls its files is hostile: a name is one part of a path or refused, nothing is
 * written through a link that is found below the target, and links are made last, those that lead out of the copy not at
 * all. A file appears under its name when it is whole.
 */
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { chmod, lstat, mkdir, rename, rm, rmdir, stat, symlink } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FileEntry, FilePath, Sandbox } from '@space/sdk';
import type { Context } from './context.ts';
import type { CopyOptions } from './copy-in.ts';
import { CliError, usage } from './errors.ts';
import { writeAll } from './output.ts';
import { byteName, byteSafe, isPlainName, joinBytes, nameOf } from './paths.ts';
import type { Progress } from './progress.ts';

interface Link {
  readonly path: FilePath;
  readonly pointsTo: FilePath;
  /** How many directories below the top of the copy it lies in. */
  readonly depth: number;
}

export class CopyOut {
  readonly #sandbox: Sandbox;
  readonly #context: Context;
  readonly #progress: Progress;
  readonly #options: CopyOptions;
  readonly #links: Link[] = [];
  /** Directories that were made here, the deepest last. */
  readonly #made: FilePath[] = [];

  constructor(sandbox: Sandbox, context: Context, progress: Progress, options: CopyOptions) {
    this.#sandbox = sandbox;
    this.#context = context;
    this.#progress = progress;
    this.#options = options;
  }

  /** `target` may be `-`, our standard output. */
  async copy(source: string, target: string): Promise<void> {
    const entry = await this.#sandbox.files.stat(source, this.#options.as);
    if (target === '-') {
      if (entry.type !== 'file') throw usage(`${source} is not a file.`, 'Only a file can be written to the output.');
      for await (const chunk of await this.#read(entry, source)) await writeAll(this.#context.io.stdout, chunk);
      return;
    }
    const isDirectory = await stat(target).then(
      (found) => found.isDirectory(),
      () => false,
    );
    const name = source.replace(/\/+$/, '').split('/').at(-1) ?? '';
    if ((isDirectory || target.endsWith('/')) && !isPlainName(name)) {
      throw usage(`${source} does not end with a name.`, 'Give the path to copy it to.');
    }
    const place = isDirectory || target.endsWith('/') ? join(target, name) : target;
    if (entry.type === 'directory') await this.#whole(source, place);
    else await this.#file(entry, source, place);
  }

  async #whole(source: string, target: string): Promise<void> {
    if (!this.#options.recursive)
      throw usage(`${source} is a directory.`, 'Give -r to copy it with all that is in it.');
    try {
      await this.#tree(source, target, 0);
    } catch (thrown) {
      // An empty one would make the next attempt copy into it.
      for (const path of this.#made.toReversed()) await rmdir(byteSafe(path)).catch(() => undefined);
      throw thrown;
    }
    for (const link of this.#links) await this.#link(link);
  }

  async #tree(source: FilePath, target: FilePath, depth: number): Promise<void> {
    await this.#directory(target, depth);
    for await (const entry of this.#sandbox.files.entries(source, this.#options.as)) {
      if (!isPlainName(entry.name)) {
        const detail = `The sandbox calls a file "${nameOf(entry.name)}", which is not a name.`;
        throw new CliError('bad_name', detail, 'Nothing was written under it. Do not trust this sandbox.');
      }
      const to = joinBytes(target, entry.name);
      if (entry.type === 'directory') await this.#tree(entry.path, to, depth + 1);
      else if (entry.type === 'file') await this.#file(entry, entry.path, to);
      else if (entry.linkTarget !== null) this.#links.push({ path: to, pointsTo: entry.linkTarget, depth });
      else this.#context.out.warn(`${nameOf(entry.path)} is neither a file nor a directory nor a link: left out.`);
    }
  }

  /** The top may be reached by a link of the person's own; below it, a link could be one that an earlier copy made. */
  async #directory(path: FilePath, depth: number): Promise<void> {
    const found = await (depth === 0 ? stat : lstat)(byteSafe(path)).catch(() => null);
    if (found === null) {
      await mkdir(byteSafe(path), { recursive: depth === 0 });
      this.#made.push(path);
    } else if (!found.isDirectory()) {
      throw new CliError(
        'in_the_way',
        `${nameOf(path)} is there, and is not a directory.`,
        'Move it away, or copy elsewhere.',
      );
    }
  }

  async #file(entry: FileEntry, source: FilePath, target: FilePath): Promise<void> {
    if (typeof target === 'string') await mkdir(dirname(target), { recursive: true });
    const part = byteSafe(joinBytes(directoryOf(target), `.space-${randomBytes(6).toString('hex')}.part`));
    try {
      await pipeline(
        await this.#read(entry, source),
        createWriteStream(part, { flags: 'wx', mode: 0o600, flush: true }),
      );
      await chmod(part, Number.parseInt(entry.mode, 8) & 0o777);
      await rename(part, byteSafe(target));
    } catch (error) {
      await rm(part, { force: true });
      throw error;
    }
  }

  async #read(entry: FileEntry, source: FilePath): Promise<AsyncIterable<Uint8Array>> {
    this.#progress.begin(nameOf(source), entry.sizeBytes);
    const stream = await this.#sandbox.files.readStream(source, this.#options.as);
    return this.#progress.count(Readable.fromWeb(stream as Parameters<typeof Readable.fromWeb>[0]));
  }

  async #link({ path, pointsTo, depth }: Link): Promise<void> {
    const name = nameOf(path);
    if (!staysInside(nameOf(pointsTo), depth)) {
      this.#context.out.warn(`${name} links to ${nameOf(pointsTo)}, outside of what is copied: left out.`);
      return;
    }
    await symlink(byteSafe(pointsTo), byteSafe(path)).catch((error: unknown) => {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
      this.#context.out.warn(`${name} is there already: the link was left out.`);
    });
  }
}

/** Whether a link that lies so deep in a tree leads to something in it: it may go up only at its beginning, and not too far. */
export function staysInside(target: string, depth: number): boolean {
  if (isAbsolute(target)) return false;
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  const ups = parts.findIndex((part) => part !== '..');
  const [leading, rest] = ups < 0 ? [parts.length, []] : [ups, parts.slice(ups)];
  return leading <= depth && !rest.includes('..');
}

function directoryOf(path: FilePath): FilePath {
  const bytes = Buffer.from(byteSafe(path));
  const at = bytes.lastIndexOf('/');
  return at < 0 ? '.' : byteName(bytes.subarray(0, Math.max(1, at)));
}
