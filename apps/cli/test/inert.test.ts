import { describe, expect, it } from 'vitest';
import { staysInside } from '../src/copy-out.ts';
import { inert, inertJson } from '../src/inert.ts';
import { Escape } from '../src/input-pump.ts';
import { pickOne } from '../src/resolve.ts';
import { PrivateModes } from '../src/terminal.ts';
import { placeOf } from '../src/verbs/cp.ts';

describe('text', () => {
  it.each([
    ['plain, ünïcode 漢字 🙂 text', 'plain, ünïcode 漢字 🙂 text'],
    ['\x1b[31m', '\\u{1b}[31m'],
    ['a\nb\tc\rd', 'a\\u{a}b\\u{9}c\\u{d}d'],
    ['\u202eabc\u2066', '\\u{202e}abc\\u{2066}'],
    ['\u009b\u007f\u200d\ufeff', '\\u{9b}\\u{7f}\\u{200d}\\u{feff}'],
    ['\ud800', '\\u{d800}'],
    ['\u{e0001}\u{f0000}', '\\u{e0001}\\u{f0000}'],
  ])('%j is shown as %j', (text, shown) => {
    expect(inert(text)).toBe(shown);
  });

  it('is the same value in JSON, without an active character', () => {
    const value = { 'a\u202e': ['\x1b\u009b\u{e0001}', '\ud800', 1, null], nested: { text: 'ü\n' } };
    const text = inertJson(value, 2);
    expect(JSON.parse(text)).toEqual(value);
    expect(text.replaceAll('\n', '')).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
  });
});

describe('the way out of a terminal', () => {
  it.each([
    [['~.'], '', true],
    [['a~.'], 'a~.', false],
    [['a\r', '~', '.b'], 'a\r', true],
    [['\r~~.'], '\r~.', false],
    [['\r~x~.'], '\r~x~.', false],
  ])('of %j', (typed, passed, leave) => {
    const wayOut = new Escape();
    const read = typed.map((text) => wayOut.read(Buffer.from(text)));
    expect(Buffer.concat(read.map(({ bytes }) => bytes)).toString()).toBe(passed);
    expect(read.some((each) => each.leave)).toBe(leave);
  });
});

describe('the modes of a terminal', () => {
  it.each([
    [['\x1b[?1049h\x1b[?1049l'], ''],
    [['\x1b[?1049h', '\x1b[?25l'], '\x1b[?1049l\x1b[?25h'],
    [['\x1b[?10', '00;1006h'], '\x1b[?1000l\x1b[?1006l'],
    [['\x1b[1;31mred'], '\x1b[0m'],
    [['\x1b[31mred\x1b[0m'], ''],
    [['\x1b[?1h'], '\x1b[?1l'],
  ])('%j is undone by %j', (printed, undone) => {
    const modes = new PrivateModes();
    for (const text of printed) modes.read(Buffer.from(text));
    expect(modes.undo()).toBe(undone);
    expect(modes.undo()).toBe('');
  });
});

describe('a link in a copy', () => {
  it.each([
    ['a/b', 0, true],
    ['../a', 1, true],
    ['../a', 0, false],
    ['/etc/passwd', 3, false],
    ['../../x', 2, true],
    ['a/../../x', 2, false],
    ['..', 0, false],
    ['.', 0, true],
  ])('%j at depth %i stays inside: %s', (target, depth, stays) => {
    expect(staysInside(target, depth)).toBe(stays);
  });
});

it.each([
  ['box:/a/b', 'box', '/a/b'],
  ['box:', 'box', ''],
  ['./a:b', null, './a:b'],
  ['/x:y', null, '/x:y'],
  ['plain', null, 'plain'],
  ['-', null, '-'],
])('the place %j', (text, sandbox, path) => {
  expect(placeOf(text)).toEqual({ sandbox, path });
});

it('an exact match wins over prefixes', () => {
  const all = [
    { id: 'sbx_1', name: 'web' },
    { id: 'sbx_2', name: 'web-2' },
  ];
  expect(pickOne('sandbox', 'web', all, 'space ls').id).toBe('sbx_1');
  expect(() => pickOne('sandbox', '', all, 'space ls')).toThrow('There is no sandbox ""');
});
