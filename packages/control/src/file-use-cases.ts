/** The use-cases of files in a sandbox. All of them wake a paused one. */
import { type Caller, givenBytes, type Input, type OpenFile } from '@space/contract';
import type { FileStatus, GuestBytes, ListedFile, NodePort, SandboxId, WatchEvent } from '@space/core';
import { Awake, MAX_WAKES, wasPaused } from './awake.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import { stoppable } from './streams.ts';

type Given = { readonly path?: string; readonly pathBase64?: Uint8Array };

export class FileUseCases {
  readonly #node: NodePort;
  readonly #awake: Awake;

  constructor(machinery: Machinery, sandboxes: LifecycleUseCases) {
    this.#node = machinery.ports.node;
    this.#awake = new Awake(machinery, sandboxes);
  }

  readFile({ signal }: Caller, { id, ...file }: Input<'readFile'>): Promise<OpenFile> {
    return this.#awake.use(id, signal, (sandboxId) => this.#node.readFile(sandboxId, withPath(file), signal));
  }

  async writeFile({ signal }: Caller, { id, ...file }: Input<'writeFile'>, body: AsyncIterable<Uint8Array>) {
    // The body can be read once, so a second attempt is the caller's.
    const { id: sandboxId } = await this.#awake.wake(id, signal);
    return this.#node.writeFile(sandboxId, withPath(file), body, signal);
  }

  statFile({ signal }: Caller, { id, ...file }: Input<'statFile'>): Promise<FileStatus> {
    return this.#awake.use(id, signal, (sandboxId) => this.#node.stat(sandboxId, withPath(file)));
  }

  listFiles(caller: Caller, { id, ...directory }: Input<'listFiles'>): AsyncIterable<ListedFile> {
    return this.#stream(caller, id, (sandboxId) => this.#node.list(sandboxId, withPath(directory)));
  }

  makeDirectory({ signal }: Caller, { id, ...directory }: Input<'makeDirectory'>): Promise<FileStatus> {
    return this.#awake.use(id, signal, (sandboxId) => this.#node.makeDirectory(sandboxId, withPath(directory)));
  }

  moveFile({ signal }: Caller, { id, ...input }: Input<'moveFile'>): Promise<void> {
    const { from, fromBase64, to, toBase64, ...rest } = input;
    const move = { ...rest, from: givenBytes(from, fromBase64), to: givenBytes(to, toBase64) };
    return this.#awake.use(id, signal, (sandboxId) => this.#node.moveFile(sandboxId, move));
  }

  removeFile({ signal }: Caller, { id, ...file }: Input<'removeFile'>): Promise<number> {
    return this.#awake.use(id, signal, (sandboxId) => this.#node.removeFile(sandboxId, withPath(file), signal));
  }

  setFileAttributes({ signal }: Caller, { id, ...attributes }: Input<'setFileAttributes'>): Promise<FileStatus> {
    return this.#awake.use(id, signal, (sandboxId) => this.#node.setAttributes(sandboxId, withPath(attributes)));
  }

  makeSymlink({ signal }: Caller, { id, ...input }: Input<'makeSymlink'>): Promise<FileStatus> {
    const { target, targetBase64, ...rest } = withPath(input);
    const link = { ...rest, target: givenBytes(target, targetBase64) };
    return this.#awake.use(id, signal, (sandboxId) => this.#node.makeSymlink(sandboxId, link));
  }

  listXattrs({ signal }: Caller, { id, ...file }: Input<'listXattrs'>): Promise<readonly GuestBytes[]> {
    return this.#awake.use(id, signal, (sandboxId) => this.#node.xattrs(sandboxId, withPath(file)));
  }

  getXattr({ signal }: Caller, { id, ...attribute }: Input<'getXattr'>): Promise<Uint8Array> {
    return this.#awake.use(id, signal, (sandboxId) => this.#node.xattr(sandboxId, withName(attribute)));
  }

  setXattr({ signal }: Caller, { id, value, ...attribute }: Input<'setXattr'>): Promise<void> {
    return this.#awake.use(id, signal, (sandboxId) => this.#node.setXattr(sandboxId, withName(attribute), value));
  }

  removeXattr({ signal }: Caller, { id, ...attribute }: Input<'removeXattr'>): Promise<void> {
    return this.#awake.use(id, signal, (sandboxId) => this.#node.removeXattr(sandboxId, withName(attribute)));
  }

  watchFiles(caller: Caller, { id, ...directory }: Input<'watchFiles'>): AsyncIterable<WatchEvent> {
    return this.#stream(caller, id, (sandboxId, signal) => this.#node.watch(sandboxId, withPath(directory), signal));
  }

  #stream<T>(
    caller: Caller,
    reference: string,
    open: (sandboxId: SandboxId, signal: AbortSignal) => AsyncIterable<T>,
  ): AsyncIterable<T> {
    const awake = this.#awake;
    return stoppable(caller.signal, async function* (signal) {
      for (let wakes = 1; ; wakes++) {
        const sandbox = await awake.wake(reference, signal);
        let begun = false;
        try {
          for await (const item of open(sandbox.id, signal)) {
            signal.throwIfAborted();
            begun = true;
            yield item;
          }
          return;
        } catch (thrown) {
          if (begun || wakes >= MAX_WAKES || !wasPaused(thrown)) throw thrown;
        }
      }
    });
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
