import { format, inspect } from 'node:util';
import { expect, it } from 'vitest';
import { KeyBytes } from './key-bytes.ts';

const TEXT = 'battery-staple-horse-correct-ok!';
const bytes = () => Uint8Array.from(Buffer.from(TEXT));
const key = new KeyBytes(bytes());

it('gives the bytes to who asks for them by name', () => {
  expect(Buffer.from(key.reveal()).toString()).toBe(TEXT);
  expect(key.length).toBe(TEXT.length);
});

it.each([
  ['text', () => String(key)],
  ['a template', () => `${key}`],
  ['a sum of texts', () => 'a'.concat(key as never)],
  ['JSON', () => JSON.stringify({ key, list: [key] })],
  ['an inspection, with what is hidden', () => inspect(key, { showHidden: true, customInspect: false, depth: 9 })],
  ['a usual inspection', () => inspect({ key })],
  ['a formatted line', () => format('%s %o %O %j %d', key, key, key, key, key)],
  ['an error', () => inspect(new Error(`${key}`, { cause: key }))],
  ['its keys', () => JSON.stringify([Object.entries(key), Object.getOwnPropertyNames(key), { ...key }])],
  ['a clone', () => inspect(structuredClone(key))],
])('does not show it in %s', (_where, show) => {
  const shown = show();
  expect(shown).not.toContain('battery');
  // As numbers, in decimal and hex, and in base 64.
  for (const form of ['98, 97, 116', '98,97,116', '62 61 74', '626174', 'YmF0dGVy']) expect(shown).not.toContain(form);
});

it('is overwritten where it lies, and gives no zeros for a key afterwards', () => {
  const held = bytes();
  const wiped = new KeyBytes(held);
  const copy = wiped.copy();
  wiped.wipe();
  wiped.wipe();
  expect(held.every((byte) => byte === 0)).toBe(true);
  expect(wiped.wiped).toBe(true);
  expect(() => wiped.reveal()).toThrow('after it was wiped');
  expect(Buffer.from(copy.reveal()).toString()).toBe(TEXT);
});

it('is wiped at the end of the block that uses it', () => {
  const held = bytes();
  {
    using used = new KeyBytes(held);
    expect(used.wiped).toBe(false);
  }
  expect(held.every((byte) => byte === 0)).toBe(true);
});

it.each(['movedFrom', 'copy'] as const)(
  'made by %s lies in a buffer of its own, which no garbage collection copies',
  (how) => {
    const count = 5000;
    const bytes = Buffer.alloc(64, 1);
    using one = KeyBytes.movedFrom(Buffer.alloc(64, 1));
    const before = process.memoryUsage().arrayBuffers;
    const made = Array.from({ length: count }, () => (how === 'copy' ? one.copy() : KeyBytes.movedFrom(bytes)));
    // Small arrays in V8's heap are no part of this number.
    expect(process.memoryUsage().arrayBuffers - before).toBeGreaterThan(count * 60);
    for (const key of made) key.wipe();
  },
);
