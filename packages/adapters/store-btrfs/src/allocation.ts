/**
 * The allocator's own view of a Btrfs, from sysfs: how much of the device is given to which kind of block, and how full
 * that is. Unlike the ioctl it tells what is promised to data that is dirty in memory, within microseconds of the write.
 *
 * Read synchronously: the files lie in the kernel's memory, and a look must not queue behind work that waits for a disk.
 */
import { readFileSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import type { VaultSpace } from '@space/core';
import type { Layout } from './layout.ts';
import { availableBytes } from './space.ts';

export interface BlockGroupSpace {
  readonly kind: 'data' | 'metadata' | 'system' | 'global_reserve';
  /** Bytes on the device for each byte stored: 2 for DUP. */
  readonly copies: number;
  readonly totalBytes: number;
  readonly usedBytes: number;
}

export interface MeasuredFileSystem {
  readonly layout: Layout;
  readonly uuid: string;
  /** Where the loop file lies, or null for a device. */
  readonly hostFolder: string | null;
}

export function measureSpace({ layout, uuid, hostFolder }: MeasuredFileSystem): VaultSpace {
  const { blocks, bsize } = statfsSync(layout.root);
  const host = hostFolder === null ? null : statfsSync(hostFolder);
  const totalBytes = blocks * bsize;
  const hostFreeBytes = host === null ? Number.POSITIVE_INFINITY : host.bavail * host.bsize;
  const groups = readBlockGroups(join('/sys/fs/btrfs', uuid, 'allocation'));
  return { totalBytes, availableBytes: availableBytes({ deviceBytes: totalBytes, groups, hostFreeBytes }) };
}

function readBlockGroups(folder: string): readonly BlockGroupSpace[] {
  const number = (...path: string[]) => Number(readFileSync(join(folder, ...path), 'utf8'));
  const group = (kind: 'data' | 'metadata' | 'system', taken: readonly string[]): BlockGroupSpace => {
    const totalBytes = number(kind, 'total_bytes');
    return {
      kind,
      copies: totalBytes === 0 ? 1 : Math.round(number(kind, 'disk_total') / totalBytes),
      totalBytes,
      usedBytes: taken.reduce((sum, file) => sum + number(kind, file), 0),
    };
  };
  // Data that is dirty has its blocks promised (`may_use`), then chosen (`reserved`), then `used`. For metadata the promise
  // is the worst case, many times what it takes, and shrinks when room is short.
  const data = group('data', ['bytes_used', 'bytes_may_use', 'bytes_reserved', 'bytes_readonly']);
  const metadata = group('metadata', ['bytes_used', 'bytes_reserved', 'bytes_readonly']);
  const reserve = number('global_rsv_size');
  return [
    data,
    metadata,
    group('system', ['bytes_used']),
    { kind: 'global_reserve', copies: 1, totalBytes: reserve, usedBytes: reserve - number('global_rsv_reserved') },
  ];
}
