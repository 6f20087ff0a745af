/** Files of one sandbox. Paths are absolute, or relative to the user's home. */
import type { ListWireEvent, RemovedFiles, FileEntry as WireEntry, WrittenFile as WireWritten } from '@space/contract';
import { concat } from './capture.ts';
import { misused } from './errors.ts';
import { chunksOf, readEvents } from './lines.ts';
import { refuseUnknown } from './options.ts';
import { bytesFields, type FilePath, joined, toldPath } from './paths.ts';
import type { CallOptions, Transport } from './transport.ts';
import { type WatchEvent, watchEvents } from './watch.ts';
import { Xattrs } from './xattrs.ts';

/** What a path in the sandbox is. */
export interface FileEntry
  extends Omit<WireEntry, 'name' | 'nameBase64' | 'path' | 'pathBase64' | 'linkTarget' | 'linkTargetBase64'> {
  /** The last part of the path: text where it is UTF-8, else bytes. */
  readonly name: FilePath;
  /** To be given to any call. Of a listing: the directory as it was given, and what is below it. */
  readonly path: FilePath;
  /** Of a symbolic link that was not followed; else null. */
  readonly linkTarget: FilePath | null;
}

export interface WrittenFile extends Omit<WireWritten, 'path' | 'pathBase64'> {
  readonly path: FilePath;
}

export interface FileOptions extends CallOptions {
  /** Name or uid in the sandbox, with whose rights it is done; default: `user`. */
  readonly user?: string;
}

export interface ReadOptions extends FileOptions {
  /** First byte to read. Default 0. */
  readonly offset?: number;
  /** At most so many bytes. Default: to the end. */
  readonly length?: number;
}

export interface WriteOptions extends FileOptions {
  /** Permission bits, e.g. 0o755. Default: those of the replaced file, or 0o644. */
  readonly mode?: number;
  /** Throws `file_exists` when there is anything by that name. Default false. */
  readonly ifAbsent?: boolean;
  /** Of the content, 64 hex digits; another content changes nothing and throws `digest_mismatch`. */
  readonly sha256?: string;
}

export interface ListOptions extends FileOptions {
  /** Levels of directories, 1 to 16. Default 1. */
  readonly depth?: number;
}

export interface FollowOptions extends FileOptions {
  /** Whether a symbolic link at the end of the path is followed. Default true. */
  readonly follow?: boolean;
}

export interface DirectoryOptions extends FileOptions {
  /** Makes missing parents too, and takes a directory that is there for made. Default false. */
  readonly parents?: boolean;
  /** Permission bits. Default 0o755. */
  readonly mode?: number;
}

export interface MoveOptions extends FileOptions {
  /** Whether a file at the new path is replaced. Default true. */
  readonly overwrite?: boolean;
}

export interface RemoveOptions extends FileOptions {
  /** A directory with all that is in it. Default false: only an empty one. */
  readonly recursive?: boolean;
}

export interface WatchOptions extends FileOptions {
  /** All directories below too, also those that are made later. Default false. */
  readonly recursive?: boolean;
}

/** Anything that bytes can be taken from. */
export type FileContent =
  | string
  | Uint8Array
  | ArrayBuffer
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>;

export class Files {
  /** Extended attributes. */
  readonly xattrs: Xattrs;
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, sandboxPath: string) {
    this.#transport = transport;
    this.#path = `${sandboxPath}/files`;
    this.xattrs = new Xattrs(transport, this.#path);
  }

  /**
   * Replaces the file atomically; missing directories are made. When it returns, the file is complete and durable, and
   * `sha256` was computed in the sandbox. Streams are sent as they come.
   *
   * Errors: `file_denied`, `file_wrong_type` (a directory is in the way), `file_exists`, `digest_mismatch`, `guest_full`, …
   */
  async write(path: FilePath, content: FileContent, options: WriteOptions = {}): Promise<WrittenFile> {
    const { user, mode, ifAbsent, sha256, signal, ...unknown } = options;
    refuseUnknown(unknown);
    const query = { ...bytesFields('path', path), user, mode: octalOf(mode), ifAbsent, sha256 };
    const call = { method: 'PUT', path: this.#path, query, bytes: toBody(content), signal } as const;
    const { path: _, pathBase64: __, ...written } = await this.#transport.json<WireWritten>(call);
    return { ...written, path };
  }

  /** The file as UTF-8 text; what is not valid UTF-8 is replaced by U+FFFD. Errors as of `readBytes`. */
  async read(path: FilePath, options: ReadOptions = {}): Promise<string> {
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(await this.readBytes(path, options));
  }

  /** The bytes of the file. Errors: `file_not_found`, `file_denied`, `file_wrong_type`; `link_lost` when not all came. */
  async readBytes(path: FilePath, options: ReadOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of this.#chunks(path, options)) {
      chunks.push(chunk);
      length += chunk.length;
    }
    return concat(chunks, length);
  }

  /** The file as a stream, read at the reader's pace. It fails with `link_lost` when the file did not come whole. */
  async readStream(path: FilePath, options: ReadOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const response = await this.#open(path, options);
    const chunks = chunksOf(response, options.signal);
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          const { done, value } = await chunks.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
        cancel: async () => {
          await chunks.return(undefined);
        },
      },
      { highWaterMark: 0 },
    );
  }

  /** What the path is; of a symbolic link, what it points to, unless it is not followed. */
  async stat(path: FilePath, { user, follow, signal, ...unknown }: FollowOptions = {}): Promise<FileEntry> {
    refuseUnknown(unknown);
    const query = { ...bytesFields('path', path), user, follow };
    return this.#entry(path, { method: 'GET', path: `${this.#path}/stat`, query, signal });
  }

  /** The entries of a directory, each directory before what is in it. Links are not followed. */
  async list(path: FilePath, options: ListOptions = {}): Promise<FileEntry[]> {
    const entries: FileEntry[] = [];
    for await (const entry of this.entries(path, options)) entries.push(entry);
    return entries;
  }

  /** As `list`, one by one, for directories of any length. */
  async *entries(path: FilePath, { user, depth, signal, ...unknown }: ListOptions = {}): AsyncGenerator<FileEntry> {
    refuseUnknown(unknown);
    const query = { ...bytesFields('path', path), user, depth };
    const call = { method: 'GET', path: `${this.#path}/list`, query, signal } as const;
    for await (const event of readEvents<ListWireEvent>(await this.#transport.send(call), 'end', signal)) {
      if (event.type === 'entry') yield entryOf(event.entry, joined(path, toldPath('path', event.entry)));
    }
  }

  /** Errors: `file_exists`, `file_not_found` (a parent is missing), … */
  async makeDirectory(path: FilePath, options: DirectoryOptions = {}): Promise<FileEntry> {
    const { user, parents, mode, signal, ...unknown } = options;
    refuseUnknown(unknown);
    const json = { ...bytesFields('path', path), user, parents, mode: octalOf(mode) };
    return this.#entry(path, { method: 'POST', path: `${this.#path}/directories`, json, signal });
  }

  /** Moves or renames, atomically. Errors: `file_exists`, `directory_not_empty`, `file_other_device`, … */
  async move(
    source: FilePath,
    target: FilePath,
    { user, overwrite, signal, ...unknown }: MoveOptions = {},
  ): Promise<void> {
    refuseUnknown(unknown);
    const json = { ...bytesFields('to', target), ...bytesFields('from', source), user, overwrite };
    await this.#transport.done({ method: 'POST', path: `${this.#path}/move`, json, signal });
  }

  /** The entry itself, never what a link points to. Returns how many entries were removed. */
  async remove(path: FilePath, { user, recursive, signal, ...unknown }: RemoveOptions = {}): Promise<number> {
    refuseUnknown(unknown);
    const query = { ...bytesFields('path', path), user, recursive };
    const call = { method: 'DELETE', path: this.#path, query, signal } as const;
    return (await this.#transport.json<RemovedFiles>(call)).removed;
  }

  /** Sets the permission bits. */
  async chmod(path: FilePath, mode: number, { user, signal, ...unknown }: FileOptions = {}): Promise<FileEntry> {
    refuseUnknown(unknown);
    const json = { ...bytesFields('path', path), user, mode: octalOf(mode) };
    return this.#entry(path, { method: 'PATCH', path: this.#path, json, signal });
  }

  /** Sets owner or group, by name or number; it clears the set-id bits. Only root may give a file away. */
  async chown(
    path: FilePath,
    { owner, group }: { readonly owner?: string | number; readonly group?: string | number },
    { user, follow, signal, ...unknown }: FollowOptions = {},
  ): Promise<FileEntry> {
    refuseUnknown(unknown);
    const text = (who: string | number | undefined) => (who === undefined ? undefined : String(who));
    const json = { ...bytesFields('path', path), user, owner: text(owner), group: text(group), follow };
    return this.#entry(path, { method: 'PATCH', path: this.#path, json, signal });
  }

  /** A symbolic link at `path` that points to `target`. Errors: `file_exists`, … */
  async symlink(target: FilePath, path: FilePath, { user, signal, ...unknown }: FileOptions = {}): Promise<FileEntry> {
    refuseUnknown(unknown);
    const json = { ...bytesFields('path', path), ...bytesFields('target', target), user };
    return this.#entry(path, { method: 'POST', path: `${this.#path}/symlinks`, json, signal });
  }

  /**
   * Changes below a directory, with paths relative to it. First comes `ready`: from then on nothing is missed, or
   * `overflow` says so. It ends by leaving the loop, by the signal, or with an error: `file_not_found` when the directory is
   * gone, `link_lost` or `vm_lost` when the life of the sandbox ends (a pause, a rewind).
   */
  watch(path: FilePath, { user, recursive, signal, ...unknown }: WatchOptions = {}): AsyncGenerator<WatchEvent> {
    refuseUnknown(unknown);
    const query = { ...bytesFields('path', path), user, recursive };
    return watchEvents(this.#transport, { method: 'GET', path: `${this.#path}/watch`, query, signal });
  }

  async #entry(path: FilePath, call: Parameters<Transport['json']>[0]): Promise<FileEntry> {
    return entryOf(await this.#transport.json<WireEntry>(call), path);
  }

  async *#chunks(path: FilePath, options: ReadOptions): AsyncGenerator<Uint8Array> {
    yield* chunksOf(await this.#open(path, options), options.signal);
  }

  #open(path: FilePath, { user, offset, length, signal, ...unknown }: ReadOptions): Promise<Response> {
    refuseUnknown(unknown);
    const query = { ...bytesFields('path', path), user, offset, length };
    return this.#transport.send({ method: 'GET', path: this.#path, query, signal });
  }
}

function entryOf(wire: WireEntry, path: FilePath): FileEntry {
  const { name, nameBase64, path: _, pathBase64: __, linkTarget, linkTargetBase64, ...rest } = wire;
  const isLink = linkTarget !== null || linkTargetBase64 !== null;
  return {
    ...rest,
    name: toldPath('name', { name, nameBase64 }),
    path,
    linkTarget: isLink ? toldPath('linkTarget', { linkTarget, linkTargetBase64 }) : null,
  };
}

function octalOf(mode: number | undefined): string | undefined {
  return mode === undefined ? undefined : toOctal(mode);
}

function toOctal(mode: number): string {
  if (!Number.isInteger(mode) || mode < 0 || mode > 0o7777) {
    throw misused(`The mode ${mode} is not one of permission bits.`, 'Pass it in octal, e.g. 0o644.');
  }
  return mode.toString(8).padStart(4, '0');
}

export function toBody(content: FileContent): Uint8Array | ReadableStream<Uint8Array> {
  if (typeof content === 'string') return new TextEncoder().encode(content);
  if (content instanceof Uint8Array || content instanceof ReadableStream) return content;
  if (content instanceof ArrayBuffer) return new Uint8Array(content);
  if (content instanceof Blob) return content.stream();
  return streamOf(content);
}

function streamOf(items: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = items[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: async () => {
      await iterator.return?.();
    },
  });
}
