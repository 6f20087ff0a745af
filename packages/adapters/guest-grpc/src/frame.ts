/**
 * Frames of the link: a 20-byte header and a payload of at most 32,768 bytes (guest/proto/LINK.md has the layout and the
 * rules). Pure: bytes in, facts out.
 */
import { Buffer } from 'node:buffer';

export const HEADER_BYTES = 20;
export const MAX_PAYLOAD_BYTES = 32_768;
/** However a frame was cut, it has ended after this many more bytes. */
export const RESYNC_BYTES = HEADER_BYTES + MAX_PAYLOAD_BYTES;
export const SESSION_BYTES = 8;

export const FRAME_KIND = { sync: 1, synced: 2, data: 3 } as const;
export type FrameKind = (typeof FRAME_KIND)[keyof typeof FRAME_KIND];

const MAGIC = Buffer.from('SPLK', 'latin1');
const MAGIC_LE = MAGIC.readUInt32LE(0);
const KIND_OFFSET = 4;
const SESSION_OFFSET = 8;
const LENGTH_OFFSET = 16;

export function frameHeader(kind: FrameKind, session: Uint8Array, payloadBytes: number): Buffer {
  const header = Buffer.allocUnsafe(HEADER_BYTES);
  writeHeader(header, kind, session, payloadBytes);
  return header;
}

/** Writes a header into the first 20 bytes of `target`. */
export function writeHeader(target: Buffer, kind: FrameKind, session: Uint8Array, payloadBytes: number): void {
  target.set(MAGIC, 0);
  // The kind is the low byte; the three reserved ones above it are zero.
  target.writeUInt32LE(kind, KIND_OFFSET);
  target.set(session, SESSION_OFFSET);
  target.writeUInt32LE(payloadBytes, LENGTH_OFFSET);
}

/** The payload length of the `DATA` header at `offset`; a sentence that says what is wrong when it is anything else. */
export function dataLength(bytes: Buffer, offset: number, session: Buffer): number | string {
  if (bytes.readUInt32LE(offset) !== MAGIC_LE) return 'a frame does not start with the magic';
  if (bytes.readUInt32LE(offset + KIND_OFFSET) !== FRAME_KIND.data) return 'a frame is not DATA';
  const at = offset + SESSION_OFFSET;
  if (bytes.compare(session, 0, SESSION_BYTES, at, at + SESSION_BYTES) !== 0) return 'a frame is of another session';
  const length = bytes.readUInt32LE(offset + LENGTH_OFFSET);
  return length > MAX_PAYLOAD_BYTES ? 'a frame is longer than allowed' : length;
}
