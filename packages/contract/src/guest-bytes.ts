/** Between the two forms that bytes of the guest have on the wire and the one that they have inside. */
import { AppError, type GuestBytes, guestBytes } from '@space/core';

/** One of the two is there, which the schema of the input saw to. Bytes that are UTF-8 are the same path in either form. */
export function givenBytes(text: string | undefined, bytes: Uint8Array | undefined): GuestBytes {
  if (text !== undefined) return text;
  if (bytes !== undefined) return guestBytes(bytes);
  throw new AppError('bad_request', 'A path or name is missing.');
}

/** The text, and the bytes in base64: one of them is null. */
export function toldBytes(value: GuestBytes): readonly [string | null, string | null] {
  return typeof value === 'string' ? [value, null] : [null, Buffer.from(value).toString('base64')];
}
