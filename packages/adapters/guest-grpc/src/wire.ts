/** Between the port's values and the wire's: text becomes bytes and back, and every number of the guest is checked. */
import { AppError, type FileStatus, type GuestBytes, guestBytes, type ListedFile } from '@space/core';
import { FileStatus_Type, type FileStatus as WireStatus } from '@space/guest-proto';
import { brokenContract } from './errors.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

const MAX_PATH_BYTES = 4_096;
const MAX_NAME_BYTES = 255;

/** UTF-8 of a text that the kernel takes as a C string. */
export function bytesOf(what: string, text: string): Uint8Array {
  if (!text.isWellFormed()) throw new AppError('bad_request', `${what} is not well-formed text.`);
  if (text.includes('\0')) throw new AppError('bad_request', `${what} contains a NUL.`);
  return encoder.encode(text);
}

export function pathBytes(path: GuestBytes, what = 'path'): Uint8Array {
  const bytes = opaqueBytes(`The ${what}`, path);
  if (bytes.length >= MAX_PATH_BYTES)
    throw new AppError('bad_request', `The ${what} is ${bytes.length} bytes long; Linux takes ${MAX_PATH_BYTES - 1}.`);
  return bytes;
}

/** At least one byte, none of them zero. */
export function opaqueBytes(what: string, value: GuestBytes): Uint8Array {
  if (value.length === 0) throw new AppError('bad_request', `${what} is empty.`);
  if (typeof value === 'string') return bytesOf(what, value);
  if (value.includes(0)) throw new AppError('bad_request', `${what} contains a NUL.`);
  return value;
}

/** Bytes of the guest as text; what is not UTF-8 is replaced. */
export function textOf(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** A 64-bit number of the guest as a JavaScript number, refused when it would lose precision. */
export function safeNumber(what: string, value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER) || value < BigInt(Number.MIN_SAFE_INTEGER)) {
    throw brokenContract(`${what} is out of range`);
  }
  return Number(value);
}

/** A count or offset of ours for the wire. */
export function wireNumber(what: string, value: number): bigint {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new AppError('bad_request', `${what} must be a whole number from 0 on.`);
  return BigInt(value);
}

const NANOSECONDS_PER_MS = 1_000_000n;

export function fileStatusOf(wire: WireStatus | undefined): FileStatus {
  if (!wire) throw brokenContract('a file status is missing');
  if (wire.name.length > MAX_NAME_BYTES) throw brokenContract('a file name is too long');
  if (wire.linkTarget.length > MAX_PATH_BYTES) throw brokenContract('a link target is too long');
  const type = fileTypeOf(wire.type);
  return {
    name: guestBytes(wire.name),
    type,
    sizeBytes: safeNumber('a file size', wire.size),
    mode: wire.mode & 0o7777,
    uid: wire.uid,
    gid: wire.gid,
    modifiedMs: safeNumber('a modification time', wire.modifiedNs / NANOSECONDS_PER_MS),
    ...(type === 'symlink' ? { linkTarget: guestBytes(wire.linkTarget) } : {}),
  };
}

export function listedFileOf(wire: WireStatus): ListedFile {
  if (wire.path.length > MAX_PATH_BYTES) throw brokenContract('a path is too long');
  const status = fileStatusOf(wire);
  return { ...status, path: wire.path.length === 0 ? status.name : guestBytes(wire.path), unreadable: wire.unreadable };
}

/** A path below a directory, as the guest tells it. */
export function relativePathOf(path: Uint8Array): GuestBytes {
  if (path.length > MAX_PATH_BYTES) throw brokenContract('a path is too long');
  return guestBytes(path);
}

function fileTypeOf(type: WireStatus['type']): FileStatus['type'] {
  switch (type) {
    case FileStatus_Type.FILE:
      return 'file';
    case FileStatus_Type.DIRECTORY:
      return 'directory';
    case FileStatus_Type.SYMLINK:
      return 'symlink';
    case FileStatus_Type.OTHER:
      return 'other';
    default:
      throw brokenContract('a file has an unknown type');
  }
}
