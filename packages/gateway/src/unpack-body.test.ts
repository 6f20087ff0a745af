import { randomBytes } from 'node:crypto';
import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { MAX_UNPACKED_BYTES } from '@space/core';
import { describe, expect, it } from 'vitest';
import { unpack } from './unpack-body.ts';

const TEXT = '{"cents":1}';
const unpacked = async (body: Uint8Array, ...codings: string[]) => {
  const headers = codings.map((coding) => ['Content-Encoding', coding] as const);
  const found = await unpack({ headers, body });
  return found === null ? null : { ...found, bytes: Buffer.from(found.bytes).toString() };
};
const whole = (coding: string) => ({ bytes: TEXT, isWhole: true, coding });

describe('a packed body', () => {
  it.each([
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ] as const)('of %s is unpacked', async (coding, pack) => {
    expect(await unpacked(pack(TEXT), coding)).toEqual(whole(coding));
    expect(await unpacked(pack(TEXT), ` ${coding.toUpperCase()} `)).toEqual(whole(coding));
  });

  it.each<[string, Uint8Array, string[]]>([
    ['of no coding', gzipSync(TEXT), []],
    ['of a coding that nobody knows', gzipSync(TEXT), ['constructor']],
    ['of two codings', gzipSync(TEXT), ['gzip', 'gzip']],
    ['of two codings in one', gzipSync(gzipSync(TEXT)), ['gzip, gzip']],
    ['of another coding', deflateSync(TEXT), ['gzip']],
    ['of deflate without its frame', deflateRawSync(TEXT), ['deflate']],
    ['that is cut off', gzipSync(TEXT).subarray(0, -3), ['gzip']],
    ['with bytes behind its end', Buffer.concat([gzipSync(TEXT), Buffer.from('more')]), ['gzip']],
    ['of br with bytes behind its end', Buffer.concat([brotliCompressSync(TEXT), Buffer.from('more')]), ['br']],
    ['of deflate with bytes behind its end', Buffer.concat([deflateSync(TEXT), Buffer.from('more')]), ['deflate']],
    ['that is none', randomBytes(100), ['br']],
    ['of nothing', new Uint8Array(), ['gzip']],
  ])('%s is not', async (_what, body, codings) => {
    expect(await unpacked(body, ...codings)).toBeNull();
  });

  it('that would become large comes out as far as it can be shown, and no further', async () => {
    const spaces = Buffer.alloc(32 * 2 ** 20, ' ');
    const params = { [constants.BROTLI_PARAM_QUALITY]: 1 };
    for (const [coding, bomb] of [
      ['gzip', gzipSync(spaces, { level: 1 })],
      ['br', brotliCompressSync(spaces, { params })],
    ] as const) {
      const before = process.memoryUsage();
      const { bytes, isWhole } = (await unpacked(bomb, coding)) ?? { bytes: '', isWhole: true };
      expect([bytes.length, isWhole]).toEqual([MAX_UNPACKED_BYTES, false]);
      const { external, arrayBuffers } = process.memoryUsage();
      expect(external + arrayBuffers - before.external - before.arrayBuffers).toBeLessThan(16 * 2 ** 20);
    }
    const most = Buffer.alloc(MAX_UNPACKED_BYTES, ' ');
    expect((await unpacked(gzipSync(most), 'gzip'))?.isWhole).toBe(true);
  });
});
