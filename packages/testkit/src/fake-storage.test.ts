import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { type FakeStorage, MemoryStorage, REAL_FOLDERS } from './fake-storage.ts';

const STORAGES: readonly [string, () => { storage: FakeStorage; root: string }][] = [
  ['in memory', () => ({ storage: new MemoryStorage(), root: '/nowhere' })],
  ['in real folders', () => ({ storage: REAL_FOLDERS, root: temporaryFolder() })],
];

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'space-fake-storage-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

it.each(STORAGES)('files %s are copied, moved and removed as a whole', (_, make) => {
  const { storage, root } = make();
  const at = (path: string) => join(root, path);
  storage.makeFolder(at('a/b'));
  storage.write(at('a/b/file'), 'one');
  storage.copy(at('a'), at('copy'));
  storage.write(at('a/b/file'), 'two');
  storage.move(at('a/b/file'), at('moved'));
  expect(storage.read(at('copy/b/file')).toString()).toBe('one');
  expect(storage.read(at('moved')).toString()).toBe('two');
  expect(storage.list(at('a/b'))).toEqual([]);
  expect(() => storage.read(at('a/b/file'))).toThrow(/ENOENT/);
  expect(() => storage.write(at('nowhere/file'), '')).toThrow(/ENOENT/);
  storage.grow(at('moved'), 10);
  expect(storage.read(at('moved')).toString().replaceAll('\0', '')).toBe('two');
  storage.remove(at('a'));
  storage.remove(at('a'));
  expect([storage.has(at('a')), storage.has(at('copy/b'))]).toEqual([false, true]);
});
