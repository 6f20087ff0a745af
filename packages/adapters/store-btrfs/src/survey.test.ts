import { PIECE } from '@space/core';
import { describe, expect, it } from 'vitest';
import type { Extent } from './extents.ts';
import { placesOf, surveyPieces } from './survey.ts';

const KIB = 1024;
const extent = (offset: number, place: number | null, length: number, shared = true): Extent => ({
  offset: offset * KIB,
  place: place === null ? null : place * KIB,
  length: length * KIB,
  shared,
});
const survey = (now: readonly Extent[], base: readonly Extent[] | null) =>
  [...surveyPieces(4, placesOf(now, 64 * KIB), base === null ? null : placesOf(base, 64 * KIB))].map((state) =>
    state === PIECE.hole ? '.' : state === PIECE.same ? 's' : 'D',
  );

describe('a piece', () => {
  it('is a hole where nothing lies, and data without a base', () => {
    expect(survey([extent(64, 1000, 4)], null)).toEqual(['.', 'D', '.', '.']);
    expect(survey([], [extent(0, 1000, 256)])).toEqual(['.', '.', '.', '.']);
  });

  it('is the same where it lies at the same places, however many extents tell of them', () => {
    expect(survey([extent(0, 1000, 256)], [extent(0, 1000, 256)])).toEqual(['s', 's', 's', 's']);
    const split = [extent(0, 1000, 16), extent(16, 1016, 80), extent(96, 1096, 160)];
    expect(survey(split, [extent(0, 1000, 256)])).toEqual(['s', 's', 's', 's']);
  });

  it('is data where a part lies elsewhere, is missing, is more, or is shared with nobody', () => {
    const base = [extent(0, 1000, 256)];
    expect(survey([extent(0, 1000, 100), extent(100, 5000, 4), extent(104, 1104, 152)], base)).toEqual([
      's',
      'D',
      's',
      's',
    ]);
    expect(survey([extent(0, 1000, 100), extent(104, 1104, 152)], base)).toEqual(['s', 'D', 's', 's']);
    expect(survey(base, [extent(0, 1000, 100), extent(104, 1104, 152)])).toEqual(['s', 'D', 's', 's']);
    expect(survey([extent(0, 1000, 256, false)], base)).toEqual(['D', 'D', 'D', 'D']);
  });

  it('is data where its place says nothing of its content', () => {
    expect(survey([extent(0, null, 256)], [extent(0, null, 256)])).toEqual(['D', 'D', 'D', 'D']);
  });

  it('is the same at another offset of the device only when that is its own', () => {
    expect(survey([extent(0, 1064, 64)], [extent(0, 1000, 128)])).toEqual(['D', '.', '.', '.']);
  });
});
