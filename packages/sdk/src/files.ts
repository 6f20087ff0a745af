/** Files of one sandbox. Paths are absolute, or relative to the user's home. */
import type { FileEntry, ListWireEvent, WrittenFile } from '@space/contract';
import { concat } from './capture.ts';
import { misused } from './errors.ts';
import { chunksOf, readEvents } from './lines.ts';
import type { CallOptions, Transport } from './transport.ts';

export type { FileEntry, WrittenFile };

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
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, sandboxPath: string) {
    this.#transport = transport;
    this.#path = `${sandboxPath}/files`;
  }

  /**
   * Replaces the file atomically; missing directories are made. When it returns, the file is complete and durable, and
   * `sha256` was computed in the sandbox. Streams are sent as they come.
   *
   * Errors: `file_denied`, `file_wrong_type` (a directory is in the way), `guest_full`.
   */
  async write(path: string, content: FileContent, options: WriteOptions = {}): Promise<WrittenFile> {
    const { user, signal } = options;
    const mode = options.mode === undefined ? undefined : toOctal(options.mode);
    const bytes = toBody(content);
    return this.#transport.json({ method: 'PUT', path: this.#path, query: { path, user, mode }, bytes, signal });
  }

  /** The file as UTF-8 text; what is not valid UTF-8 is replaced by U+FFFD. Errors as of `readBytes`. */
  async read(path: string, options: ReadOptions = {}): Promise<string> {
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(await this.readBytes(path, options));
  }

  /** The bytes of the file. Errors: `file_not_found`, `file_denied`, `file_wrong_type`; `link_lost` when not all came. */
  async readBytes(path: string, options: ReadOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of this.#chunks(path, options)) {
      chunks.push(chunk);
      length += chunk.length;
    }
    return concat(chunks, length);
  }

  /** The file as a stream, read at the reader's pace. It fails with `link_lost` when the file did not come whole. */
  async readStream(path: string, options: ReadOptions = {}): Promise<ReadableStream<Uint8Array>> {
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

  /** What the path is; of a symlink, what it points to. Errors: `file_not_found`, `file_denied`. */
  async stat(path: string, { user, signal }: FileOptions = {}): Promise<FileEntry> {
    return this.#transport.json({ method: 'GET', path: `${this.#path}/stat`, query: { path, user }, signal });
  }

  /** The entries of a directory. Errors: `file_not_found`, `file_denied`, `file_wrong_type`. */
  async list(path: string, options: FileOptions = {}): Promise<FileEntry[]> {
    const entries: FileEntry[] = [];
    for await (const entry of this.entries(path, options)) entries.push(entry);
    return entries;
  }

  /** As `list`, one by one, for directories of any length. */
  async *entries(path: string, { user, signal }: FileOptions = {}): AsyncGenerator<FileEntry> {
    const call = { method: 'GET', path: `${this.#path}/list`, query: { path, user }, signal } as const;
    for await (const event of readEvents<ListWireEvent>(await this.#transport.send(call), 'end', signal)) {
      if (event.type === 'entry') yield event.entry;
    }
  }

  async *#chunks(path: string, options: ReadOptions): AsyncGenerator<Uint8Array> {
    yield* chunksOf(await this.#open(path, options), options.signal);
  }

  #open(path: string, { user, offset, length, signal }: ReadOptions): Promise<Response> {
    return this.#transport.send({ method: 'GET', path: this.#path, query: { path, user, offset, length }, signal });
  }
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
