/** Packs while everything else waits, so that nothing is left to the order in which threads end. */
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { Packer } from '@space/core';

export const FAKE_PACKER: Packer = {
  pack: async (bytes) => zstdCompressSync(bytes),
  unpack: async (packed, maxBytes) => zstdDecompressSync(packed, { maxOutputLength: maxBytes }),
};
