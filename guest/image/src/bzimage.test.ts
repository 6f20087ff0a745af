import { describe, expect, test } from 'vitest';
import { extractKernel } from './bzimage.ts';

const ELF = '\x7fELF';

/** One LZ4 sequence: literals, then a copy of `length` bytes from `offset` back (none for the last sequence). */
function sequence(literals: string, match?: { offset: number; length: number }): Buffer {
  const literalLength = lengthField(literals.length);
  const matchLength = match ? lengthField(match.length - 4) : lengthField(0);
  const token = Buffer.from([(literalLength.nibble << 4) | matchLength.nibble]);
  const offset = match ? Buffer.from([match.offset & 255, match.offset >> 8]) : Buffer.alloc(0);
  return Buffer.concat([token, literalLength.more, Buffer.from(literals, 'latin1'), offset, matchLength.more]);
}

function lengthField(length: number): { nibble: number; more: Buffer } {
  if (length < 15) return { nibble: length, more: Buffer.alloc(0) };
  const rest = length - 15;
  return { nibble: 15, more: Buffer.from([...Array<number>(Math.floor(rest / 255)).fill(255), rest % 255]) };
}

const u32 = (value: number): Buffer => {
  const buffer = Buffer.alloc(4);
  buffer.writeUInt32LE(value);
  return buffer;
};

function bzImage(blocks: readonly Buffer[], sizeBytes: number, magic = 0x184c2102): Buffer {
  const frame = Buffer.concat([u32(magic), ...blocks.flatMap((block) => [u32(block.length), block]), u32(sizeBytes)]);
  const setupSectors = 3;
  const payloadOffset = 100;
  const head = Buffer.alloc((setupSectors + 1) * 512 + payloadOffset);
  head.writeUInt8(setupSectors, 0x1f1);
  head.write('HdrS', 0x202, 'latin1');
  head.writeUInt32LE(payloadOffset, 0x248);
  head.writeUInt32LE(frame.length, 0x24c);
  return Buffer.concat([head, frame, Buffer.from('what follows the payload')]);
}

describe('extractKernel', () => {
  test('unpacks literals, copies and runs over several blocks', () => {
    const first = Buffer.concat([
      sequence(`${ELF}abcd`, { offset: 4, length: 4 }),
      sequence('x', { offset: 1, length: 300 }), // overlaps what it writes
      sequence('end'),
    ]);
    const second = sequence('y'.repeat(600));
    const expected = `${ELF}abcdabcd${'x'.repeat(301)}end${'y'.repeat(600)}`;
    const kernel = extractKernel(bzImage([first, second], expected.length));
    expect(kernel.toString('latin1')).toBe(expected);
  });

  test('says so when it is no bzImage', () => {
    expect(() => extractKernel(Buffer.alloc(4096))).toThrow('no bzImage');
  });

  test('names the magic of a packing that it does not know', () => {
    expect(() => extractKernel(bzImage([sequence(ELF)], 4, 0xfd2fb528))).toThrow('fd2fb528');
  });

  test('refuses an image that is cut short', () => {
    const whole = bzImage([sequence(`${ELF}${'k'.repeat(100)}`)], 104);
    expect(() => extractKernel(whole.subarray(0, whole.length - 60))).toThrow('cut short');
  });

  test.each([
    ['smaller than it claims', [sequence(`${ELF}abc`)], 100, '7 bytes after unpacking, 100 expected'],
    ['larger than it claims', [sequence(`${ELF}${'k'.repeat(50)}`)], 10, 'larger than it claims'],
    ['a match before its block', [sequence(ELF, { offset: 9, length: 4 })], 8, 'points outside'],
    ['no ELF file', [sequence('just text')], 9, 'no ELF file'],
  ])('refuses a payload that is %s', (_what, blocks, sizeBytes, message) => {
    expect(() => extractKernel(bzImage(blocks, sizeBytes))).toThrow(message);
  });
});
