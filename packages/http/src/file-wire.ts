/** What is told of files, from the domain's shapes to those of the wire. */
import { type FileEntry, toldBytes, type WatchWireEvent } from '@space/contract';
import { type FileStatus, type GuestBytes, type ListedFile, unreachable, type WatchEvent } from '@space/core';
import { toInstant, toOctal } from './wire.ts';

/** `path` is as it was asked for, or relative to the listed directory. */
export function toFileEntry(status: FileStatus, path: GuestBytes, unreadable = false): FileEntry {
  const [name, nameBase64] = toldBytes(status.name);
  const [linkTarget, linkTargetBase64] = status.linkTarget === undefined ? [null, null] : toldBytes(status.linkTarget);
  return {
    name,
    nameBase64,
    ...toldPath(path),
    type: status.type,
    sizeBytes: status.sizeBytes,
    mode: toOctal(status.mode),
    uid: status.uid,
    gid: status.gid,
    modifiedAt: toInstant(status.modifiedMs).toISOString(),
    linkTarget,
    linkTargetBase64,
    unreadable,
  };
}

export function toListedEntry(listed: ListedFile): FileEntry {
  return toFileEntry(listed, listed.path, listed.unreadable);
}

export function toldPath(value: GuestBytes): { path: string | null; pathBase64: string | null } {
  const [path, pathBase64] = toldBytes(value);
  return { path, pathBase64 };
}

export function toWatchWireEvent(event: WatchEvent): WatchWireEvent {
  switch (event.kind) {
    case 'ready':
    case 'overflow':
      return { type: event.kind };
    case 'moved': {
      const [from, fromBase64] = toldBytes(event.from);
      const [to, toBase64] = toldBytes(event.to);
      return { type: 'moved', from, fromBase64, to, toBase64, directory: event.directory };
    }
    case 'created':
    case 'modified':
    case 'removed':
    case 'attributes':
      return { type: event.kind, ...toldPath(event.path), directory: event.directory };
    default:
      return unreachable(event);
  }
}
