import { describe, expect, it } from 'vitest';
import { packValue, unpackValue } from '../src/values.ts';

const over = (value: unknown) => unpackValue(Buffer.concat(packValue(value)));

describe('a value', () => {
  it.each([
    ['of plain data', { a: [1, 'x', null, true], b: { c: -0.5 } }],
    ['that is bytes', Uint8Array.of(0, 255, 10)],
    ['with bytes in it', { data: Uint8Array.of(1, 2), list: [Uint8Array.of(), { deep: Uint8Array.of(3) }], text: 'é' }],
    ['whose names are those of prototypes', JSON.parse('{"__proto__": {"x": 1}, "constructor": null}')],
    [
      'with bytes under such a name',
      Object.defineProperty({}, '__proto__', { value: Uint8Array.of(7), enumerable: true }),
    ],
    ['with text that is no Unicode', { text: '\ud800' }],
  ])('%s arrives as it was', (_, value) => {
    expect(over(value)).toEqual(value);
  });

  it('leaves out what is undefined, and none is undefined', () => {
    expect(over({ a: undefined, b: 1 })).toEqual({ b: 1 });
    expect(over(undefined)).toBeUndefined();
  });

  it('has its own bytes, not a view of what came with it', () => {
    const { data } = over({ data: Buffer.from('abc') }) as { data: Uint8Array };
    expect(data.buffer.byteLength).toBe(3);
  });
});

describe('a piece that is none', () => {
  const piece = (shape: unknown, bytes = '') => {
    const json = Buffer.from(JSON.stringify(shape));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(json.length);
    return Buffer.concat([length, json, Buffer.from(bytes)]);
  };
  it.each([
    ['is cut', Buffer.concat(packValue({ a: Uint8Array.of(1, 2, 3) })).subarray(0, -1)],
    ['is too long', piece({ value: 1 }, 'x')],
    ['has bytes of a length that cannot be', piece({ value: { a: null }, bytes: [[['a'], -1]] })],
    ['has bytes for a prototype', piece({ value: { a: null }, bytes: [[['__proto__', 'polluted'], 1]] }, 'x')],
    ['has bytes in place of another value', piece({ value: { a: 1 }, bytes: [[['a'], 1]] }, 'x')],
    ['is no JSON', Buffer.concat([Buffer.from([0, 0, 0, 1]), Buffer.from('{')])],
  ])('is refused when it %s', (_, bytes) => {
    expect(() => unpackValue(bytes)).toThrow();
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});
