/**
 * Where archives go to and come from: a folder, or a bucket of storage that speaks S3, as who runs the installation says. A
 * place that cannot be reached now stops no start: it is opened at its next use.
 */
import type { Archive, ArchiveKey } from '@space/core';

export type ArchiveLocation =
  | { readonly kind: 'folder'; readonly path: string }
  | {
      readonly kind: 's3';
      readonly bucket: string;
      /** Empty, or ends with a slash. */
      readonly prefix: string;
      readonly region: string;
      readonly endpoint?: string;
    };

export type ArchiveLocations = Readonly<Record<string, ArchiveLocation>>;

export async function openArchives(
  locations: ArchiveLocations,
  onWarning: (message: string) => void,
): Promise<ReadonlyMap<string, Archive>> {
  const archives = new Map<string, Archive>();
  for (const [name, location] of Object.entries(locations)) {
    const archive = new LateArchive(() => openOne(location));
    archives.set(name, archive);
    await archive.opened().catch((thrown: unknown) => {
      onWarning(`archives "${name}": ${thrown instanceof Error ? thrown.message : String(thrown)}`);
    });
  }
  return archives;
}

/** Loaded when it is asked for: the client of S3 is large. */
async function openOne(location: ArchiveLocation): Promise<Archive> {
  if (location.kind === 'folder') return (await import('@space/archive-folder')).openFolderArchive(location.path);
  const { kind: _, ...options } = location;
  return (await import('@space/archive-s3')).openS3Archive(options);
}

/** Opened once it can be, and then kept open. */
class LateArchive implements Archive {
  readonly #open: () => Promise<Archive>;
  #opening: Promise<Archive> | null = null;

  constructor(open: () => Promise<Archive>) {
    this.#open = open;
  }

  opened(): Promise<Archive> {
    this.#opening ??= this.#open().catch((thrown: unknown) => {
      this.#opening = null;
      throw thrown;
    });
    return this.#opening;
  }

  async get(...args: Parameters<Archive['get']>): ReturnType<Archive['get']> {
    return (await this.opened()).get(...args);
  }

  async put(...args: Parameters<Archive['put']>): ReturnType<Archive['put']> {
    return (await this.opened()).put(...args);
  }

  async create(...args: Parameters<Archive['create']>): ReturnType<Archive['create']> {
    return (await this.opened()).create(...args);
  }

  async has(...args: Parameters<Archive['has']>): ReturnType<Archive['has']> {
    return (await this.opened()).has(...args);
  }

  async remove(...args: Parameters<Archive['remove']>): ReturnType<Archive['remove']> {
    return (await this.opened()).remove(...args);
  }

  async *list(...args: Parameters<Archive['list']>): AsyncGenerator<ArchiveKey, void> {
    yield* (await this.opened()).list(...args);
  }
}
