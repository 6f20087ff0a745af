/**
 * Plain data with bytes in it, as one piece: JSON for the shape, the bytes behind it as they are. Which places of the value
 * the bytes belong to is said beside it, so that no text of a user can be taken for them.
 *
 *     length of the JSON, 4 bytes │ {"value": …, "bytes": [[path, length], …]} │ bytes │ bytes …
 */
import { outsideTheHeap } from '@space/core';

const LENGTH_BYTES = 4;

type Path = readonly (string | number)[];

interface Shape {
  readonly value?: unknown;
  readonly bytes?: readonly (readonly [Path, number])[];
}

/** `undefined` in objects is left out, as in JSON. The parts are to be sent one after another. */
export function packValue(value: unknown): readonly Uint8Array[] {
  const found: { readonly path: Path; readonly bytes: Uint8Array }[] = [];
  const shape: Shape = { value: withoutBytes(value, [], found) };
  const places = found.map(({ path, bytes }) => [path, bytes.length] as const);
  const json = Buffer.from(JSON.stringify(places.length === 0 ? shape : { ...shape, bytes: places }));
  const length = Buffer.allocUnsafe(LENGTH_BYTES);
  length.writeUInt32BE(json.length);
  return [length, json, ...found.map(({ bytes }) => bytes)];
}

/** Throws when the piece is not one that `packValue` makes. */
export function unpackValue(piece: Buffer): unknown {
  const jsonEnd = LENGTH_BYTES + piece.readUInt32BE(0);
  if (jsonEnd > piece.length) throw new Error('a value was cut');
  const { value, bytes = [] } = JSON.parse(piece.toString('utf8', LENGTH_BYTES, jsonEnd)) as Shape;
  const root: Record<string, unknown> = { value };
  let offset = jsonEnd;
  for (const [path, length] of bytes) {
    if (!Number.isSafeInteger(length) || length < 0 || offset + length > piece.length)
      throw new Error('bytes are missing');
    // A copy: what is kept of a value must not keep all that came with it. In a buffer of its own, which stays where it is, since it may be a key.
    place(root, ['value', ...path], outsideTheHeap(piece.subarray(offset, offset + length)));
    offset += length;
  }
  if (offset !== piece.length) throw new Error('a value has bytes too many');
  return root['value'];
}

function withoutBytes(value: unknown, path: Path, found: { path: Path; bytes: Uint8Array }[]): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Uint8Array) {
    found.push({ path, bytes: value });
    return null;
  }
  if (Array.isArray(value)) return value.map((item, index) => withoutBytes(item, [...path, index], found));
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, withoutBytes(item, [...path, key], found)]),
  );
}

/** Only where the value says `null` itself: a path leads to no prototype. */
function place(root: object, path: Path, bytes: Uint8Array): void {
  let holder: object = root;
  for (const [depth, key] of path.entries()) {
    const item: unknown = Object.hasOwn(holder, key) ? (holder as Record<string | number, unknown>)[key] : undefined;
    if (depth === path.length - 1 && item === null) {
      Object.defineProperty(holder, key, { value: bytes, writable: true, enumerable: true, configurable: true });
      return;
    }
    if (typeof item !== 'object' || item === null) break;
    holder = item;
  }
  throw new Error('bytes belong to no place');
}
