/**
 * The files of a guest, as the host may ask for them. A path is what Linux takes for one: any bytes but zero. Everything is
 * done by the agent with the authority of a user of the guest; no name of the guest is ever opened on the host.
 *
 * Errors of all: `file_not_found`, `file_denied`, `file_wrong_type`, `file_symlink_loop`, `guest_exhausted`; of those that
 * change something also `file_read_only`, `file_busy`, `file_unsupported`, `guest_full`. What a call promises to have changed
 * is durable when it returns; when it throws, nothing was changed, except where it says so.
 */

/** Bytes of Linux that are usually text: a string where they are UTF-8, else the bytes. A string stands for its UTF-8. */
export type GuestBytes = string | Uint8Array;

export interface GuestFiles {
  readFile(
    file: FileRange,
    signal?: AbortSignal,
  ): Promise<{ readonly status: FileStatus; readonly body: AsyncIterable<Uint8Array> }>;
  /**
   * Replaces the file atomically. The digest is computed in the guest. Throws `file_exists` when there should be nothing,
   * `digest_mismatch` when the body is another than was announced.
   */
  writeFile(
    file: NewFile,
    body: AsyncIterable<Uint8Array>,
    signal?: AbortSignal,
  ): Promise<{ readonly sizeBytes: number; readonly sha256: string }>;
  stat(file: FilePath & Following): Promise<FileStatus>;
  /** Entries in byte order of their names, each directory before what is in it. Links are not followed. */
  list(directory: FilePath & { readonly depth?: number }): AsyncIterable<ListedFile>;

  /** Throws `file_exists`, with `parents` only when it is no directory. */
  makeDirectory(directory: NewDirectory): Promise<FileStatus>;
  /** Atomic, of the entry itself. Throws `file_exists`, `directory_not_empty`, `file_other_device`. */
  moveFile(move: FileMove): Promise<void>;
  /**
   * Removes the entry itself, never what a link points to; returns how many entries that were. Throws
   * `directory_not_empty`. When it throws or is aborted midway, what was removed is gone.
   */
  removeFile(file: FilePath & { readonly recursive?: boolean }, signal?: AbortSignal): Promise<number>;
  /** Owner and group first, then the mode; when the second fails, the first is done. */
  setAttributes(attributes: FileAttributes): Promise<FileStatus>;
  /** Throws `file_exists`. */
  makeSymlink(link: FilePath & { readonly target: GuestBytes }): Promise<FileStatus>;

  /** Names of the extended attributes that the user may see, in byte order. */
  xattrs(file: FilePath & Following): Promise<readonly GuestBytes[]>;
  /** Throws `attribute_not_found`, as the next but one does. */
  xattr(attribute: Xattr): Promise<Uint8Array>;
  setXattr(attribute: Xattr, value: Uint8Array): Promise<void>;
  removeXattr(attribute: Xattr): Promise<void>;

  /**
   * Changes below a directory, from `ready` on. It ends only by an error: `file_not_found` when the directory is gone,
   * what became of the life, or the signal's reason.
   */
  watch(directory: WatchedDirectory, signal?: AbortSignal): AsyncIterable<WatchEvent>;
}

export interface FilePath {
  /** Absolute, or relative to the user's home. */
  readonly path: GuestBytes;
  /** Name or uid in the guest; undefined: `user`. */
  readonly user?: string;
}

export interface Following {
  /** Whether a symbolic link at the end of the path is followed; undefined: yes. */
  readonly follow?: boolean;
}

export interface FileRange extends FilePath {
  readonly offset?: number;
  readonly length?: number;
}

export interface NewFile extends FilePath {
  /** Permission bits; undefined: those of the replaced file less the set-id bits, or 0644. */
  readonly mode?: number;
  /** Nothing may be there yet. */
  readonly ifAbsent?: boolean;
  /** 64 hex digits that the body must have. */
  readonly sha256?: string;
}

export interface NewDirectory extends FilePath {
  /** Makes missing parents too, and takes a directory that is there for made. */
  readonly parents?: boolean;
  /** Undefined: 0755. */
  readonly mode?: number;
}

export interface FileMove {
  readonly from: GuestBytes;
  readonly to: GuestBytes;
  readonly user?: string;
  /** Whether a file (or an empty directory, by a directory) at `to` is replaced; undefined: yes. */
  readonly overwrite?: boolean;
}

export interface FileAttributes extends FilePath, Following {
  readonly mode?: number;
  /** Name or number. */
  readonly owner?: string;
  readonly group?: string;
}

export interface Xattr extends FilePath, Following {
  /** With its namespace: `user.note`. */
  readonly name: GuestBytes;
}

export interface WatchedDirectory extends FilePath {
  readonly recursive?: boolean;
}

export interface FileStatus {
  readonly name: GuestBytes;
  readonly type: 'file' | 'directory' | 'symlink' | 'other';
  readonly sizeBytes: number;
  /** Permission bits. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Milliseconds since 1970. */
  readonly modifiedMs: number;
  readonly linkTarget?: GuestBytes;
}

export interface ListedFile extends FileStatus {
  /** Relative to the listed directory. */
  readonly path: GuestBytes;
  /** A directory within the depth whose entries are missing, since the user may not read it. */
  readonly unreadable: boolean;
}

/** Paths are relative to the watched directory, which is itself the empty path. */
export type WatchEvent =
  | { readonly kind: 'ready' }
  | {
      readonly kind: 'created' | 'modified' | 'removed' | 'attributes';
      readonly path: GuestBytes;
      readonly directory: boolean;
    }
  | { readonly kind: 'moved'; readonly from: GuestBytes; readonly to: GuestBytes; readonly directory: boolean }
  /** Changes were lost, or some directories are not watched: there are too many. */
  | { readonly kind: 'overflow' };

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** The one form that bytes of the guest have here. */
export function guestBytes(bytes: Uint8Array): GuestBytes {
  try {
    return decoder.decode(bytes);
  } catch {
    // A copy, since it may be a view of a larger buffer.
    return Uint8Array.from(bytes);
  }
}

/** As the guest has them. */
export function rawBytes(value: GuestBytes): Uint8Array {
  return typeof value === 'string' ? encoder.encode(value) : value;
}
