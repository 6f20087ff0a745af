/** The use-cases of files in a sandbox. All of them wake a paused one. */
import { givenBytes, type Input, type OpenFile } from '@space/contract';
import type { FileStatus, GuestBytes, ListedFile, NodePort, WatchEvent } from '@space/core';
import type { ActivityLog } from './activity.ts';
import { Awake } from './awake.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';

type Given = { readonly path?: string; readonly pathBase64?: Uint8Array };

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
    return this.#awake.use(caller, id, async (sandboxId) => {
      const { status, body } = await this.#node.readFile(sandboxId, withPath(file), caller.signal);
      return { status, body: during(body, () => this.#activity.begin(sandboxId)) };
    });
  }

  async writeFile(caller: GatedCaller, { id, ...file }: Input<'writeFile'>, body: AsyncIterable<Uint8Array>) {
    // The body can be read once, so a second attempt is the caller's.
    const { id: sandboxId, end } = await this.#awake.begin(caller, id);
    try {
      await this.#awake.wake(caller, sandboxId);
      return await this.#node.writeFile(sandboxId, withPath(file), body, caller.signal);
    } finally {
      end();
    }
  }

  statFile(caller: GatedCaller, { id, ...file }: Input<'statFile'>): Promise<FileStatus> {
    return this.#awake.use(caller, id, (sandboxId) => this.#node.stat(sandboxId, withPath(file)));
  }

  listFiles(caller: GatedCaller, { id, ...directory }: Input<'listFiles'>): AsyncIterable<ListedFile> {
    return this.#awake.stream(caller, id, ({ id: sandboxId }) => this.#node.list(sandboxId, withPath(directory)));
  }

  makeDirectory(caller: GatedCaller, { id, ...directory }: Input<'makeDirectory'>): Promise<FileStatus> {
    return this.#awake.use(caller, id, (sandboxId) => this.#node.makeDirectory(sandboxId, withPath(directory)));
  }

  moveFile(caller: GatedCaller, { id, ...input }: Input<'moveFile'>): Promise<void> {
    const { from, fromBase64, to, toBase64, ...rest } = input;
    const move = { ...rest, from: givenBytes(from, fromBase64), to: givenBytes(to, toBase64) };
    return this.#awake.use(caller, id, (sandboxId) => this.#node.moveFile(sandboxId, move));
  }

  removeFile(caller: GatedCaller, { id, ...file }: Input<'removeFile'>): Promise<number> {
    return this.#awake.use(caller, id, (sandboxId) => this.#node.removeFile(sandboxId, withPath(file), caller.signal));
  }

  setFileAttributes(caller: GatedCaller, { id, ...attributes }: Input<'setFileAttributes'>): Promise<FileStatus> {
    return this.#awake.use(caller, id, (sandboxId) => this.#node.setAttributes(sandboxId, withPath(attributes)));
  }

  makeSymlink(caller: GatedCaller, { id, ...input }: Input<'makeSymlink'>): Promise<FileStatus> {
    const { target, targetBase64, ...rest } = withPath(input);
    const link = { ...rest, target: givenBytes(target, targetBase64) };
    return this.#awake.use(caller, id, (sandboxId) => this.#node.makeSymlink(sandboxId, link));
  }

  listXattrs(caller: GatedCaller, { id, ...file }: Input<'listXattrs'>): Promise<readonly GuestBytes[]> {
    return this.#awake.use(caller, id, (sandboxId) => this.#node.xattrs(sandboxId, withPath(file)));
  }

  getXattr(caller: GatedCaller, { id, ...attribute }: Input<'getXattr'>): Promise<Uint8Array> {
    return this.#awake.use(caller, id, (sandboxId) => this.#node.xattr(sandboxId, withName(attribute)));
  }

  setXattr(caller: GatedCaller, { id, value, ...attribute }: Input<'setXattr'>): Promise<void> {
    return this.#awake.use(caller, id, (sandboxId) => this.#node.setXattr(sandboxId, withName(attribute), value));
  }

  removeXattr(caller: GatedCaller, { id, ...attribute }: Input<'removeXattr'>): Promise<void> {
    return this.#awake.use(caller, id, (sandboxId) => this.#node.removeXattr(sandboxId, withName(attribute)));
  }

  watchFiles(caller: GatedCaller, { id, ...directory }: Input<'watchFiles'>): AsyncIterable<WatchEvent> {
    return this.#awake.stream(caller, id, ({ id: sandboxId }, signal) =>
      this.#node.watch(sandboxId, withPath(directory), signal),
    );
  }
}

/** The input of a call with its path in one form. */
function withPath<T extends Given>({ path, pathBase64, ...rest }: T): Omit<T, keyof Given> & { path: GuestBytes } {
  return { ...rest, path: givenBytes(path, pathBase64) };
}

function withName<T extends Given & { readonly name?: string; readonly nameBase64?: Uint8Array }>(input: T) {
  const { name, nameBase64, path, pathBase64, ...rest } = input;
  return { ...rest, path: givenBytes(path, pathBase64), name: givenBytes(name, nameBase64) };
}

/** The same items; something is held from when the first is asked for until the last was given or nobody asks any more. */
function during<T>(items: AsyncIterable<T>, hold: () => () => void): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]() {
      const iterator = items[Symbol.asyncIterator]();
      const letGo = hold();
      return {
        async next() {
          try {
            const item = await iterator.next();
            if (item.done) letGo();
            return item;
          } catch (thrown) {
            letGo();
            throw thrown;
          }
        },
        async return() {
          letGo();
          await iterator.return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}
