/** What a file is, as E2B's SDKs are told. */
import { posix } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { AppError, type FileStatus, type GuestBytes } from '@space/core';
import { type EntryInfo, EntryInfoSchema, FileType } from '../../gen/filesystem_pb.ts';
import type { EnvdCall } from './call.ts';
import { type Metadata, metadataOf } from './metadata.ts';
import { notThere } from './paths.ts';
import type { Names, Users } from './users.ts';

/** As Linux follows them. */
const MAX_LINKS = 40;

/** Throws `not_found` when there is nothing. */
export async function entryAt(call: EnvdCall, path: string, users: Users): Promise<EntryInfo> {
  // All at once: that it is a link, which has no metadata, is rare.
  const [status, names, metadata] = await Promise.all([
    statusAt(call, path),
    users.names(call),
    metadataOf(call, path),
  ]);
  return entryOf(call, { path, status, names, metadata });
}

export async function statusAt(
  { useCases, caller, sandboxId: id }: EnvdCall,
  path: string,
  follow = false,
): Promise<FileStatus> {
  try {
    return await useCases.statFile(caller, { id, path, user: 'root', follow });
  } catch (thrown) {
    throw isAbsence(thrown) ? notThere(path) : thrown;
  }
}

/** Whether it says that there is no such file. What lies below a file is not there either. */
export function isAbsence(thrown: unknown): boolean {
  return thrown instanceof AppError && thrown.code === 'file_not_found';
}

interface Found {
  /** Absolute. */
  readonly path: string;
  /** Of the entry itself. */
  readonly status: FileStatus;
  readonly names: Names;
  /** Looked up where it is not given. */
  readonly metadata?: Metadata;
}

export async function entryOf(call: EnvdCall, { path, status, names, metadata: known }: Found): Promise<EntryInfo> {
  const isLink = status.type === 'symlink';
  const [target, metadata] = await Promise.all([
    isLink ? targetOf(call, path, status) : undefined,
    isLink ? {} : (known ?? metadataOf(call, path)),
  ]);
  return create(EntryInfoSchema, {
    name: posix.basename(path),
    type: target?.type ?? TYPES[status.type],
    path,
    size: BigInt(status.sizeBytes),
    mode: status.mode & 0o777,
    permissions: permissionsOf(status),
    owner: names.users.find(({ uid }) => uid === status.uid)?.name ?? `${status.uid}`,
    group: names.groups.get(status.gid) ?? `${status.gid}`,
    modifiedTime: timestampFromMs(status.modifiedMs),
    metadata,
    ...(target && { symlinkTarget: target.path }),
  });
}

const TYPES: Readonly<Record<FileStatus['type'], FileType>> = {
  file: FileType.FILE,
  directory: FileType.DIRECTORY,
  symlink: FileType.SYMLINK,
  other: FileType.UNSPECIFIED,
};

/** Where a link leads in the end. Of one that leads nowhere: no type, and its own path. */
async function targetOf(call: EnvdCall, path: string, link: FileStatus) {
  let at = path;
  let status = link;
  for (let links = 0; status.type === 'symlink' && links < MAX_LINKS; links++) {
    at = posix.resolve(posix.dirname(at), textOf(status.linkTarget ?? ''));
    const next = await statusAt(call, at).catch(() => undefined);
    if (next === undefined) return { path, type: FileType.UNSPECIFIED };
    status = next;
  }
  return status.type === 'symlink' ? { path, type: FileType.UNSPECIFIED } : { path: at, type: TYPES[status.type] };
}

/** Where a name is not UTF-8, what it is not is replaced: the protocol has text only. */
export function textOf(bytes: GuestBytes): string {
  return typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString('utf8');
}

const BITS = 'rwxrwxrwx';

/** As Go writes a mode. */
function permissionsOf({ type, mode }: Pick<FileStatus, 'type' | 'mode'>): string {
  const kinds = [
    type === 'directory' && 'd',
    type === 'symlink' && 'L',
    (mode & 0o4000) !== 0 && 'u',
    (mode & 0o2000) !== 0 && 'g',
    (mode & 0o1000) !== 0 && 't',
  ].filter((kind) => kind !== false);
  const bits = [...BITS].map((bit, at) => ((mode >> (8 - at)) & 1 ? bit : '-'));
  return `${kinds.join('') || '-'}${bits.join('')}`;
}
