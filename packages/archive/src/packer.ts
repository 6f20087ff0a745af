/** Packs in threads of the process, so that nobody who shares it waits. */
import { promisify } from 'node:util';
import { constants, zstdCompress, zstdDecompress } from 'node:zlib';
import type { Packer } from '@space/core';

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);
const PACKING = { params: { [constants.ZSTD_c_compressionLevel]: 3 } };

export const THREAD_PACKER: Packer = {
  pack: (bytes) => compress(bytes, PACKING),
  unpack: (packed, maxBytes) => decompress(packed, { maxOutputLength: maxBytes }),
};
