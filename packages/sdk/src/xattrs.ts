/** Extended attributes of files: `user.*` with the rights of the user to the file, others as root. */
import type { XattrList } from '@space/contract';
import type { FollowOptions } from './files.ts';
import { refuseUnknown } from './options.ts';
import { bytesFields, type FilePath, fromBase64, toBase64, toldPath } from './paths.ts';
import type { Transport } from './transport.ts';

export class Xattrs {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, filesPath: string) {
    this.#transport = transport;
    this.#path = `${filesPath}/xattr`;
  }

  /** Their names, with their namespaces, in byte order. */
  async list(path: FilePath, { user, follow, signal, ...unknown }: FollowOptions = {}): Promise<FilePath[]> {
    refuseUnknown(unknown);
    const query = { ...bytesFields('path', path), user, follow };
    const call = { method: 'GET', path: `${this.#path}s`, query, signal } as const;
    return (await this.#transport.json<XattrList>(call)).attributes.map((one) => toldPath('name', one));
  }

  /** Errors: `attribute_not_found`, `file_unsupported`, … */
  async get(
    path: FilePath,
    name: FilePath,
    { user, follow, signal, ...unknown }: FollowOptions = {},
  ): Promise<Uint8Array> {
    refuseUnknown(unknown);
    const query = { ...bytesFields('path', path), ...bytesFields('name', name), user, follow };
    const { value } = await this.#transport.json<{ value: string }>({ method: 'GET', path: this.#path, query, signal });
    return fromBase64(value);
  }

  /** At most 64 KiB; the file system may take less (`guest_full`). */
  async set(path: FilePath, name: FilePath, value: Uint8Array | string, options: FollowOptions = {}): Promise<void> {
    const { user, follow, signal, ...unknown } = options;
    refuseUnknown(unknown);
    const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value;
    const json = { ...bytesFields('path', path), ...bytesFields('name', name), user, follow, value: toBase64(bytes) };
    await this.#transport.done({ method: 'PUT', path: this.#path, json, signal });
  }

  /** Errors: `attribute_not_found`, … */
  async remove(
    path: FilePath,
    name: FilePath,
    { user, follow, signal, ...unknown }: FollowOptions = {},
  ): Promise<void> {
    refuseUnknown(unknown);
    const query = { ...bytesFields('path', path), ...bytesFields('name', name), user, follow };
    await this.#transport.done({ method: 'DELETE', path: this.#path, query, signal });
  }
}
