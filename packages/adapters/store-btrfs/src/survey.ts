/**
 * Which pieces of a point's file are as in another point, known without reading: both are sealed and lie on one file
 * system, so where a piece lies at the same places of the device in both, it is the same. Pure.
 */
import { PIECE } from '@space/core';
import type { Extent } from './extents.ts';

/** The parts of each piece's extents that lie in it; pieces without any are holes. */
export type PiecePlaces = ReadonlyMap<number, readonly Extent[]>;

export function placesOf(extents: readonly Extent[], pieceBytes: number): PiecePlaces {
  const pieces = new Map<number, Extent[]>();
  for (const extent of extents) {
    const end = extent.offset + extent.length;
    for (let piece = Math.floor(extent.offset / pieceBytes); piece * pieceBytes < end; piece++) {
      const offset = Math.max(extent.offset, piece * pieceBytes);
      const length = Math.min(end, (piece + 1) * pieceBytes) - offset;
      const place = extent.place === null ? null : extent.place + (offset - extent.offset);
      const part = { offset, place, length, shared: extent.shared };
      const parts = pieces.get(piece);
      const last = parts?.at(-1);
      if (parts === undefined) pieces.set(piece, [part]);
      else if (last !== undefined && goesOn(last, part)) parts[parts.length - 1] = joined(last, part);
      else parts.push(part);
    }
  }
  return pieces;
}

/** One place can be told in one extent or in several. */
function goesOn(last: Extent, next: Extent): boolean {
  if (last.place === null || next.place === null) return false;
  return last.offset + last.length === next.offset && last.place + last.length === next.place;
}

function joined(last: Extent, next: Extent): Extent {
  return { ...last, length: last.length + next.length, shared: last.shared && next.shared };
}

export function surveyPieces(count: number, places: PiecePlaces, base: PiecePlaces | null): Uint8Array {
  const states = new Uint8Array(count).fill(PIECE.hole);
  for (const [piece, parts] of places) {
    if (piece >= count) continue;
    states[piece] = isSame(parts, base?.get(piece)) ? PIECE.same : PIECE.data;
  }
  return states;
}

function isSame(parts: readonly Extent[], base: readonly Extent[] | undefined): boolean {
  if (base?.length !== parts.length) return false;
  return parts.every((part, index) => {
    const other = base[index];
    // What no other file has cannot be the base's too.
    if (other === undefined || part.place === null || !part.shared) return false;
    return part.place === other.place && part.offset === other.offset && part.length === other.length;
  });
}
