import { expect, it } from 'vitest';
import { ByteRing, harmlessTail } from './byte-ring.ts';

it('keeps the last bytes, whatever the pieces', () => {
  const ring = new ByteRing(10);
  for (let number = 0; number < 5000; number++) ring.push(Buffer.from(`${number} `));
  expect(ring.text()).toBe('4998 4999 ');
  ring.push(Buffer.alloc(1000, 'x'));
  expect(ring.text()).toBe('xxxxxxxxxx');
});

it('makes hostile text harmless', () => {
  expect(harmlessTail('a\x1b[31mb\r\nc\u202ed\0')).toBe('a [31mb c d');
  expect(harmlessTail('y'.repeat(1000), 10)).toBe(`…${'y'.repeat(10)}`);
});
