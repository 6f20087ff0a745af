import { readdir, readFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { expect, test } from 'vitest';

const SRC = new URL('../src/', import.meta.url);

test('the client imports nothing at run time but its own files', async () => {
  for (const file of await readdir(SRC)) {
    const stripped = stripTypeScriptTypes(await readFile(new URL(file, SRC), 'utf8'), { mode: 'strip' });
    const code = stripped.replaceAll(/\/\*.*?\*\//gs, '');
    const imported = [...code.matchAll(/(?:\bfrom\s*|\bimport\s*\(?\s*)(['"])(.*?)\1/g)].map(
      ([, , specifier]) => specifier,
    );
    expect(
      imported.filter((specifier) => !specifier?.startsWith('./')),
      file,
    ).toEqual([]);
  }
});

test('the client declares no dependency', async () => {
  const manifest = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8'));
  expect(manifest.dependencies).toBeUndefined();
});
