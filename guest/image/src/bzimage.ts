/**
 * Takes the uncompressed kernel (an ELF file) out of a bzImage. Booting it directly skips the decompression, which is
 * slow under emulation.
 *
 *   boot sector + set-up code | protected-mode code … payload (LZ4, legacy frame) … uncompressed size (4 bytes)
 *                             ^ (setup_sects + 1) * 512            ^ payload_offset, payload_length count from here
 *
 * Source: Documentation/arch/x86/boot.rst in the kernel, and lz4's "legacy frame" (lib/decompress_unlz4.c).
 */
const SECTOR = 512;
const SETUP_SECTS = 0x1f1;
const HEADER_MAGIC = 0x202;
const PAYLOAD_OFFSET = 0x248;
const PAYLOAD_LENGTH = 0x24c;
const LZ4_LEGACY_MAGIC = 0x184c2102;
const MAX_KERNEL_BYTES = 512 * 1024 * 1024;

export function extractKernel(bzImage: Buffer): Buffer {
  if (bzImage.length < 0x250 || bzImage.toString('latin1', HEADER_MAGIC, HEADER_MAGIC + 4) !== 'HdrS') {
    throw new Error('This is no bzImage: the set-up header is missing');
  }
  const start = (bzImage.readUInt8(SETUP_SECTS) + 1) * SECTOR + bzImage.readUInt32LE(PAYLOAD_OFFSET);
  const end = start + bzImage.readUInt32LE(PAYLOAD_LENGTH);
  if (end > bzImage.length || end - start < 8) throw new Error('The bzImage is cut short: its payload lies outside');

  const magic = bzImage.readUInt32LE(start);
  if (magic !== LZ4_LEGACY_MAGIC) {
    throw new Error(`The kernel is packed in a way that is not supported (magic ${magic.toString(16)}, LZ4 expected)`);
  }
  const sizeBytes = bzImage.readUInt32LE(end - 4);
  if (sizeBytes > MAX_KERNEL_BYTES) throw new Error(`The kernel claims ${sizeBytes} bytes, which is too large`);

  const kernel = unpackLegacyFrame(bzImage.subarray(start + 4, end - 4), sizeBytes);
  if (kernel.toString('latin1', 1, 4) !== 'ELF') throw new Error('What is packed in the bzImage is no ELF file');
  return kernel;
}

function unpackLegacyFrame(frame: Buffer, sizeBytes: number): Buffer {
  const out = Buffer.alloc(sizeBytes);
  let length = 0;
  let at = 0;
  while (at + 4 <= frame.length) {
    const blockLength = frame.readUInt32LE(at);
    const block = frame.subarray(at + 4, at + 4 + blockLength);
    if (block.length !== blockLength) throw new Error('An LZ4 block is cut short');
    length = unpackBlock(block, out, length);
    at += 4 + blockLength;
  }
  if (length !== sizeBytes) throw new Error(`The kernel has ${length} bytes after unpacking, ${sizeBytes} expected`);
  return out;
}

/** Unpacks one LZ4 block to `out` from `position` on; returns the new position. */
function unpackBlock(block: Buffer, out: Buffer, position: number): number {
  const base = position;
  let at = 0;
  let to = position;
  const next = (): number => {
    const byte = block[at++];
    if (byte === undefined) throw new Error('An LZ4 block ends inside a sequence');
    return byte;
  };
  const extend = (length: number): number => {
    if (length !== 15) return length;
    let total = length;
    let byte: number;
    do {
      byte = next();
      total += byte;
    } while (byte === 255);
    return total;
  };
  const mustFit = (length: number): void => {
    if (to + length > out.length) throw new Error('The kernel is larger than it claims');
  };

  while (at < block.length) {
    const token = next();
    const literals = extend(token >> 4);
    mustFit(literals);
    if (block.copy(out, to, at, at + literals) !== literals) throw new Error('An LZ4 block ends inside literals');
    at += literals;
    to += literals;
    if (at >= block.length) break; // The last sequence has no match.

    const offset = next() | (next() << 8);
    const length = extend(token & 15) + 4;
    if (offset === 0 || offset > to - base) throw new Error('An LZ4 match points outside its block');
    mustFit(length);
    // A match may overlap what it writes (a run): then only a copy byte by byte is right.
    if (offset >= length) out.copyWithin(to, to - offset, to - offset + length);
    else for (let i = 0; i < length; i++) out[to + i] = out[to + i - offset] ?? 0;
    to += length;
  }
  return to;
}
