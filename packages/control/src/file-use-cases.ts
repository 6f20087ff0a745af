/** The use-cases of files in a sandbox. All of them wake a paused one. */
import { givenBytes, type Input, type OpenFile } from '@space/contract';
import {
  AppError,
  type FileStatus,
  type GuestBytes,
  type ListedFile,
  type NodePort,
  type SandboxId,
  type WatchEvent,
} from '@space/core';
import type { ActivityLog } from './activity.ts';
import { Awake } from './awake.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';
import { during } from './streams.ts';

type Given = {
  readonly path?: string;
  readonly pathBase64?: Uint8Array;
  readonly from?: string;
  readonly to?: string;
};

export class FileUseCases {
  readonly #node: NodePort;
  readonly #awake: Awake;
  readonly #activity: ActivityLog;

  constructor(machinery: Machinery, sandboxes: LifecycleUseCases) {
    this.#node = machinery.ports.node;
    this.#activity = machinery.activity;
    this.#awake = new Awake(machinery, sandboxes);
  }

  readFile(caller: GatedCaller, { id, ...file }: Input<'readFile'>): Promise<OpenFile> {
    return this.#use(caller, id, file, async (sandboxId, revoked) => {
      const signal = AbortSignal.any([caller.signal, revoked]);
      const { status, body } = await this.#node.readFile(sandboxId, withPath(file), signal);
      return { status, body: during(body, () => this.#activity.begin(sandboxId)) };
    });
  }

  async writeFile(caller: GatedCaller, { id, ...file }: Input<'writeFile'>, body: AsyncIterable<Uint8Array>) {
    // The body can be read once, so a second attempt is the caller's.
    const { id: sandboxId, end } = await this.#awake.begin(caller, id);
    try {
      await this.#awake.wake(caller, sandboxId);
      return await this.#node.writeFile(sandboxId, withPath(file), body, caller.signal).catch(named(file));
    } finally {
      end();
    }
  }

  statFile(caller: GatedCaller, { id, ...file }: Input<'statFile'>): Promise<FileStatus> {
    return this.#use(caller, id, file, (sandboxId) => this.#node.stat(sandboxId, withPath(file)));
  }

  listFiles(caller: GatedCaller, { id, ...directory }: Input<'listFiles'>): AsyncIterable<ListedFile> {
    return this.#stream(caller, id, directory, ({ id: sandboxId }) => this.#node.list(sandboxId, withPath(directory)));
  }

  makeDirectory(caller: GatedCaller, { id, ...directory }: Input<'makeDirectory'>): Promise<FileStatus> {
    return this.#use(caller, id, directory, (sandboxId) => this.#node.makeDirectory(sandboxId, withPath(directory)));
  }

  moveFile(caller: GatedCaller, { id, ...input }: Input<'moveFile'>): Promise<void> {
    const { from, fromBase64, to, toBase64, ...rest } = input;
    const move = { ...rest, from: givenBytes(from, fromBase64), to: givenBytes(to, toBase64) };
    return this.#use(caller, id, input, (sandboxId) => this.#node.moveFile(sandboxId, move));
  }

  removeFile(caller: GatedCaller, { id, ...file }: Input<'removeFile'>): Promise<number> {
    return this.#use(caller, id, file, (sandboxId) => this.#node.removeFile(sandboxId, withPath(file), caller.signal));
  }

  setFileAttributes(caller: GatedCaller, { id, ...attributes }: Input<'setFileAttributes'>): Promise<FileStatus> {
    return this.#use(caller, id, attributes, (sandboxId) => this.#node.setAttributes(sandboxId, withPath(attributes)));
  }

  makeSymlink(caller: GatedCaller, { id, ...input }: Input<'makeSymlink'>): Promise<FileStatus> {
    const { target, targetBase64, ...rest } = withPath(input);
    const link = { ...rest, target: givenBytes(target, targetBase64) };
    return this.#use(caller, id, input, (sandboxId) => this.#node.makeSymlink(sandboxId, link));
  }

  listXattrs(caller: GatedCaller, { id, ...file }: Input<'listXattrs'>): Promise<readonly GuestBytes[]> {
    return this.#use(caller, id, file, (sandboxId) => this.#node.xattrs(sandboxId, withPath(file)));
  }

  getXattr(caller: GatedCaller, { id, ...attribute }: Input<'getXattr'>): Promise<Uint8Array> {
    return this.#use(caller, id, attribute, (sandboxId) => this.#node.xattr(sandboxId, withName(attribute)));
  }

  setXattr(caller: GatedCaller, { id, value, ...attribute }: Input<'setXattr'>): Promise<void> {
    return this.#use(caller, id, attribute, (sandboxId) => this.#node.setXattr(sandboxId, withName(attribute), value));
  }

  removeXattr(caller: GatedCaller, { id, ...attribute }: Input<'removeXattr'>): Promise<void> {
    return this.#use(caller, id, attribute, (sandboxId) => this.#node.removeXattr(sandboxId, withName(attribute)));
  }

  watchFiles(caller: GatedCaller, { id, ...directory }: Input<'watchFiles'>): AsyncIterable<WatchEvent> {
    return this.#stream(caller, id, directory, ({ id: sandboxId }, signal) =>
      this.#node.watch(sandboxId, withPath(directory), signal),
    );
  }

  #use<T>(
    caller: GatedCaller,
    id: string,
    given: Given,
    use: (sandboxId: SandboxId, revoked: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return this.#awake.use(caller, id, (sandboxId, revoked) => use(sandboxId, revoked).catch(named(given)));
  }

  #stream<T>(
    caller: GatedCaller,
    id: string,
    given: Given,
    open: (sandbox: RecordedSandbox, signal: AbortSignal) => AsyncIterable<T>,
  ): AsyncIterable<T> {
    return this.#awake.stream(caller, id, async function* (sandbox, signal) {
      try {
        yield* open(sandbox, signal);
      } catch (thrown) {
        named(given)(thrown);
      }
    });
  }
}

const MAX_NAMED_LENGTH = 200;
/** Errors about a file, by the beginnings of their codes. */
const ABOUT_FILES = /^(file_|directory_|attribute_)/;

/** Says in an error about a file which it was; of a move, both. */
function named(given: Given): (thrown: unknown) => never {
  return (thrown) => {
    if (!(thrown instanceof AppError) || !ABOUT_FILES.test(thrown.code)) throw thrown;
    const paths = [given.path, given.from, given.to].filter((path) => path !== undefined);
    if (paths.length === 0) throw thrown;
    const names = paths.map((path) => JSON.stringify(path.slice(0, MAX_NAMED_LENGTH).toWellFormed())).join(' to ');
    const facts = { ...thrown.facts, ...(given.path === undefined ? {} : { path: given.path }) };
    throw new AppError(thrown.code, { detail: `${names}: ${thrown.message}`, facts }, { cause: thrown });
  };
}

/** The input of a call with its path in one form. */
function withPath<T extends Given>({
  path,
  pathBase64,
  ...rest
}: T): Omit<T, 'path' | 'pathBase64'> & { path: GuestBytes } {
  return { ...rest, path: givenBytes(path, pathBase64) };
}

function withName<T extends Given & { readonly name?: string; readonly nameBase64?: Uint8Array }>(input: T) {
  const { name, nameBase64, path, pathBase64, ...rest } = input;
  return { ...rest, path: givenBytes(path, pathBase64), name: givenBytes(name, nameBase64) };
}
