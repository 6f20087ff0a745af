import { describe, expect, it } from 'vitest';
import { Lane } from '../src/lane.ts';
import { availableBytes } from '../src/space.ts';

const GIB = 1024 ** 3;
const MIB = 1024 ** 2;

function facts(overrides: { data?: number; metadataFree?: number; device?: number; hostFreeBytes?: number }) {
  const { data = GIB, metadataFree = GIB, device = 10 * GIB, hostFreeBytes = Number.POSITIVE_INFINITY } = overrides;
  return {
    deviceBytes: device,
    hostFreeBytes,
    groups: [
      { kind: 'data', copies: 1, totalBytes: data, usedBytes: 0 },
      { kind: 'metadata', copies: 2, totalBytes: GIB, usedBytes: GIB - metadataFree },
      { kind: 'global_reserve', copies: 1, totalBytes: 0, usedBytes: 0 },
    ] as const,
  };
}

describe('available space', () => {
  it('is what data groups and unallocated space hold while metadata is plentiful', () => {
    expect(availableBytes(facts({ device: 10 * GIB }))).toBe(8 * GIB);
  });
  it('leaves room for the metadata that comes with the data', () => {
    const available = availableBytes(facts({ metadataFree: 16 * MIB }));
    expect(available).toBeLessThan(8 * GIB * 0.9);
    expect(available).toBeGreaterThan(8 * GIB * 0.8);
  });
  it('is nothing when metadata is full and nothing is unallocated, however much data space is free', () => {
    expect(availableBytes(facts({ data: 8 * GIB, metadataFree: 4 * MIB, device: 10 * GIB }))).toBe(0);
  });
  it('is no more than the host has', () => {
    expect(availableBytes(facts({ hostFreeBytes: 5 * MIB }))).toBe(5 * MIB);
  });
});

describe('the slow lane', () => {
  it('runs no more than its width at once, and everything in the end', async () => {
    const lane = new Lane(2);
    let running = 0;
    let most = 0;
    const work = async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
    };
    await Promise.all(Array.from({ length: 9 }, () => lane.run(work)));
    expect(most).toBe(2);
    await expect(lane.run(() => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
    await Promise.all(Array.from({ length: 3 }, () => lane.run(work)));
    expect(most).toBe(2);
  });
});
