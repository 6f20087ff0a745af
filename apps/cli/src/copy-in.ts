/** From here into a sandbox. What is told as copied was compared by its digest, which the sandbox computed. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, readdir, readlink, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { type FilePath, type Sandbox, SpaceError } from '@space/sdk';
import type { Context } from './context.ts';
import { CliError, usage } from './errors.ts';
import { byteName, byteSafe, joinBytes, nameOf } from './paths.ts';
import type { Progress } from './progress.ts';

export interface CopyOptions {
  readonly recursive: boolean;
  /** Whose rights it is done with. */
  readonly as: { readonly user?: string };
}

export class CopyIn {
  readonly #sandbox: Sandbox;
  readonly #context: Context;
  readonly #progress: Progress;
  readonly #options: CopyOptions;

  constructor(sandbox: Sandbox, context: Context, progress: Progress, options: CopyOptions) {
    this.#sandbox = sandbox;
    this.#context = context;
    this.#progress = progress;
    this.#options = options;
  }

  /** `source` may be `-`, our standard input. */
  async copy(source: string, target: string): Promise<void> {
    const isIntoDirectory = target.endsWith('/') || (await this.#isDirectory(target));
    if (source === '-') {
      if (isIntoDirectory) throw usage('Standard input has no name.', 'Give the path of a file to write.');
      await this.#write('standard input', this.#context.io.stdin, target, {});
      return;
    }
    const place = isIntoDirectory ? joinBytes(target, basename(source)) : target;
    if (!(await stat(source)).isDirectory()) {
      await this.#file(source, place);
      return;
    }
    if (!this.#options.recursive)
      throw usage(`${source} is a directory.`, 'Give -r to copy it with all that is in it.');
    await this.#tree(source, place);
  }

  async #tree(source: FilePath, target: FilePath): Promise<void> {
    await this.#sandbox.files.makeDirectory(target, { parents: true, ...this.#options.as });
    for (const entry of await readdir(byteSafe(source), { encoding: 'buffer' })) {
      const [from, to] = [joinBytes(source, entry), joinBytes(target, byteName(entry))];
      const found = await lstat(byteSafe(from));
      if (found.isDirectory()) await this.#tree(from, to);
      else if (found.isFile()) await this.#file(from, to);
      else if (found.isSymbolicLink()) await this.#link(from, to);
      else this.#context.out.warn(`${nameOf(from)} is neither a file nor a directory nor a link: left out.`);
    }
  }

  async #file(source: FilePath, target: FilePath): Promise<void> {
    const { size, mode } = await stat(byteSafe(source));
    this.#progress.begin(nameOf(source), size);
    await this.#write(nameOf(source), createReadStream(byteSafe(source)), target, { mode: mode & 0o777 });
  }

  async #write(name: string, bytes: AsyncIterable<Uint8Array>, target: FilePath, options: object): Promise<void> {
    const hash = createHash('sha256');
    const read = async function* (chunks: AsyncIterable<Uint8Array>) {
      for await (const chunk of chunks) {
        hash.update(chunk);
        yield chunk;
      }
    };
    const body = read(this.#progress.count(bytes));
    const { sha256 } = await this.#sandbox.files.write(target, body, { ...options, ...this.#options.as });
    if (sha256 === hash.digest('hex')) return;
    throw new CliError(
      'digest_mismatch',
      `${name} did not arrive as it was.`,
      'Copy it again; if this repeats, report it.',
    );
  }

  async #link(source: FilePath, target: FilePath): Promise<void> {
    const pointsTo = byteName(await readlink(byteSafe(source), { encoding: 'buffer' }));
    try {
      await this.#sandbox.files.symlink(pointsTo, target, this.#options.as);
    } catch (error) {
      if (!(error instanceof SpaceError) || error.code !== 'file_exists') throw error;
      this.#context.out.warn(`${nameOf(target)} is there already: the link was left out.`);
    }
  }

  async #isDirectory(path: string): Promise<boolean> {
    try {
      return (await this.#sandbox.files.stat(path, this.#options.as)).type === 'directory';
    } catch (error) {
      if (error instanceof SpaceError && error.code === 'file_not_found') return false;
      throw error;
    }
  }
}
