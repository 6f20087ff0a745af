import { describe, expect, test } from 'vitest';
import { writeCpio } from './cpio.ts';

interface Entry {
  readonly path: string;
  readonly mode: number;
  readonly inode: number;
  readonly content: string;
}

/** Reads the format as its description says, independent of the writer. */
function readCpio(archive: Buffer): Entry[] {
  const entries: Entry[] = [];
  let at = 0;
  for (;;) {
    expect(archive.toString('latin1', at, at + 6)).toBe('070701');
    const field = (index: number) =>
      Number.parseInt(archive.toString('latin1', at + 6 + index * 8, at + 14 + index * 8), 16);
    const nameEnd = at + 110 + field(11);
    const path = archive.toString('latin1', at + 110, nameEnd - 1);
    if (path === 'TRAILER!!!') return entries;
    const start = Math.ceil(nameEnd / 4) * 4;
    entries.push({
      path,
      mode: field(1),
      inode: field(0),
      content: archive.toString('latin1', start, start + field(6)),
    });
    at = Math.ceil((start + field(6)) / 4) * 4;
  }
}

const file = (path: string, content: string, mode = 0o644) => ({ path, mode, content: Buffer.from(content) });

describe('writeCpio', () => {
  test('holds what it was given, folders before what lies in them', () => {
    const entries = readCpio(writeCpio([file('init', 'agent', 0o755), file('modules/a.ko', 'x')], ['proc']));
    expect(entries.map(({ path, mode, content }) => [path, mode.toString(8), content])).toEqual([
      ['modules', '40755', ''],
      ['proc', '40755', ''],
      ['init', '100755', 'agent'],
      ['modules/a.ko', '100644', 'x'],
    ]);
  });

  test('gives every entry an inode of its own, so that none is taken for a hard link', () => {
    const inodes = readCpio(writeCpio([file('a', '1'), file('b', '2')], ['c'])).map((entry) => entry.inode);
    expect(new Set(inodes).size).toBe(3);
  });

  test.each([0, 1, 2, 3, 4, 5])('pads a content of %i bytes', (length) => {
    const entries = readCpio(writeCpio([file('a', 'x'.repeat(length)), file('bb', 'next')]));
    expect(entries.map((entry) => entry.content)).toEqual(['x'.repeat(length), 'next']);
  });

  test('gives the same bytes for the same entries, in whole blocks', () => {
    const archive = writeCpio([file('init', 'agent')]);
    expect(writeCpio([file('init', 'agent')]).equals(archive)).toBe(true);
    expect(archive.length % 512).toBe(0);
  });

  test.each(['/init', 'a b', '', 'ä'])('refuses the path %j', (path) => {
    expect(() => writeCpio([file(path, '')])).toThrow('Not a path');
  });
});
