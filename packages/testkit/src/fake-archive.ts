/** An archive in memory: objects by their paths, which a test may damage. */
import {
  AppError,
  type Archive,
  type ArchiveKey,
  archivePath,
  type ListedFolder,
  type ProjectId,
  parseArchiveKey,
} from '@space/core';
import { Faults } from './faults.ts';

export class FakeArchive implements Archive {
  readonly objects = new Map<string, Uint8Array>();
  readonly faults: Faults;

  constructor(faults = new Faults()) {
    this.faults = faults;
  }

  async get(key: ArchiveKey, maxBytes: number, signal?: AbortSignal): Promise<Uint8Array | null> {
    await this.#at('archive.get', signal);
    const bytes = this.objects.get(archivePath(key));
    if (bytes === undefined) return null;
    if (bytes.length > maxBytes) throw new AppError('archive_damaged', `${archivePath(key)} is too large.`);
    return bytes;
  }

  async put(key: ArchiveKey, bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
    await this.#at('archive.put', signal);
    this.objects.set(archivePath(key), Uint8Array.from(bytes));
  }

  async create(key: ArchiveKey, bytes: Uint8Array, signal?: AbortSignal): Promise<boolean> {
    await this.#at('archive.create', signal);
    const isNew = !this.objects.has(archivePath(key));
    if (isNew) this.objects.set(archivePath(key), Uint8Array.from(bytes));
    await this.#at('archive.create done', signal);
    return isNew;
  }

  async has(key: ArchiveKey, signal?: AbortSignal): Promise<boolean> {
    await this.#at('archive.has', signal);
    return this.objects.has(archivePath(key));
  }

  async remove(key: ArchiveKey, signal?: AbortSignal): Promise<void> {
    await this.#at('archive.remove', signal);
    this.objects.delete(archivePath(key));
  }

  async *list(space: ProjectId, folder: ListedFolder, signal?: AbortSignal): AsyncGenerator<ArchiveKey, void> {
    await this.#at('archive.list', signal);
    const prefix = `${space}/${folder}/`;
    for (const path of [...this.objects.keys()]) {
      const key = path.startsWith(prefix) ? parseArchiveKey(space, folder, path.slice(prefix.length)) : undefined;
      if (key !== undefined) yield key;
    }
  }

  async #at(step: string, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    await this.faults.at(step);
  }
}
