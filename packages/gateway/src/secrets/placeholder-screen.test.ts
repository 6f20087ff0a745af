import { Readable, type Transform } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PlaceholderScreen, WebSocketScreen } from './placeholder-screen.ts';

const PLACEHOLDER = 'space-secret-0123456789abcdefghjk';

async function sent(parts: readonly Buffer[], screen: Transform): Promise<Buffer> {
  const out: Buffer[] = [];
  Readable.from(parts)
    .on('error', () => undefined)
    .pipe(screen);
  for await (const part of screen) out.push(part as Buffer);
  return Buffer.concat(out);
}

/** As a client sends it. */
function frame(text: string, { first = 0x81, key = [1, 2, 3, 4], wide = false } = {}): Buffer {
  const bytes = Buffer.from(text).map((byte, index) => byte ^ (key[index % 4] ?? 0));
  const length = Buffer.alloc(wide ? 8 : bytes.length > 125 ? 2 : 0);
  if (wide) length.writeBigUInt64BE(BigInt(bytes.length));
  else if (length.length > 0) length.writeUInt16BE(bytes.length);
  const short = wide ? 127 : length.length > 0 ? 126 : bytes.length;
  return Buffer.concat([Buffer.of(first, 0x80 | short), length, Buffer.from(key), bytes]);
}

function cut(bytes: Buffer, at: readonly number[]): Buffer[] {
  const ends = [0, ...at.map((one) => one % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return ends.slice(1).map((to, index) => bytes.subarray(ends[index], to));
}

describe('what a program sends by a WebSocket', () => {
  it.each<[string, Buffer[]]>([
    ['in a message', [frame(`{"token":"${PLACEHOLDER}"}`)]],
    ['behind others', [frame('hello'), frame('x'.repeat(300)), frame(PLACEHOLDER, { key: [9, 200, 0, 7] })]],
    ['in a long message', [frame('x'.repeat(70_000) + PLACEHOLDER, { wide: true })]],
    ['in parts of a message', [frame('a space-sec', { first: 0x01 }), frame(PLACEHOLDER.slice(9), { first: 0x80 })]],
    [
      'in parts, with a frame of control between them',
      [frame('space-sec', { first: 0x01 }), frame('', { first: 0x89 }), frame(PLACEHOLDER.slice(9), { first: 0x80 })],
    ],
    ['in a frame of control', [frame(PLACEHOLDER, { first: 0x89 })]],
    ['in bytes that are no frames', [Buffer.from(PLACEHOLDER)]],
  ])('does not leave with a placeholder %s, wherever it is cut', async (_where, frames) => {
    const all = Buffer.concat(frames);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { maxLength: 4 }), async (at) => {
        await expect(sent(cut(all, at), new WebSocketScreen())).rejects.toMatchObject({ code: 'egress_refused' });
      }),
      { numRuns: 30 },
    );
  });

  it('leaves as it is, without', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 400 }), fc.array(fc.nat(), { maxLength: 4 }), async (bytes, at) => {
        const parts = cut(Buffer.from(bytes), at);
        expect((await sent(parts, new WebSocketScreen())).equals(Buffer.from(bytes))).toBe(true);
        expect((await sent(parts, new PlaceholderScreen())).equals(Buffer.from(bytes))).toBe(true);
      }),
      { numRuns: 50 },
    );
  });
});
