/** What the documents show is what the programs are, and print; the reference is that of this code. */
import { execFile } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { listSecretBindings, listSecrets, listSnapshots, Sandbox, setSecret, setSecretBinding } from '@space/sdk';
import { createTestPlatform, type TestPlatform, type TestProcess } from '@space/testing';
import { describe, expect, it } from 'vitest';
import { REFERENCE, ROOT } from './reference.ts';

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const blockOf = (text: string, kind: string) => new RegExp(`\`\`\`${kind}\n([\\s\\S]*?)\`\`\``).exec(text)?.[1];
const examples = globSync('examples/*.ts', { cwd: ROOT });

describe('an example', () => {
  it.each(examples)('%s stands in its document, and prints what that says', async (path) => {
    const name = path.replace(/^examples\/(.*)\.ts$/, '$1');
    const document = name === 'first' ? read('README.md') : read(`docs/guides/${name}.md`);
    expect(blockOf(document, 'ts')).toBe(read(path));
    await using platform = await createTestPlatform({ programs: { python3: computes42 } });
    const { baseUrl, apiKey } = platform.connection;
    await setUpAsUsersDo(platform);
    const before = await inventoryOf(platform);
    const e2b = { E2B_API_URL: baseUrl, E2B_SANDBOX_URL: baseUrl, E2B_API_KEY: apiKey };
    const env = { PATH: process.env['PATH'] ?? '', SPACE_URL: baseUrl, SPACE_API_KEY: apiKey, ...e2b };
    const { stdout } = await promisify(execFile)(process.execPath, [join(ROOT, path)], { env });
    if (name === 'first') expect(stdout).toBe('42 Find the bug.\n');
    else expect(stdout).toBe(blockOf(document, 'text'));
    // People try examples on the installation that they work with.
    expect(await inventoryOf(platform)).toEqual(before);
  });
});

/** What people have, by the names that they would choose. */
async function setUpAsUsersDo({ connection }: TestPlatform): Promise<void> {
  await setSecret('github-token', 'a real one', connection);
  const place = { in: 'bearer' } as const;
  await setSecretBinding('github', { ...connection, secret: 'github-token', hosts: ['api.github.com'], place });
  await using sandbox = await Sandbox.create(connection);
  await sandbox.snapshot({ name: 'with-tools' });
}

async function inventoryOf({ connection }: TestPlatform) {
  return {
    secrets: await listSecrets(connection),
    bindings: await listSecretBindings(connection),
    snapshots: await listSnapshots(connection),
    sandboxes: (await Sandbox.list(connection)).map(({ id }) => id),
  };
}

/** As `python3 -c "print(6 * 7)"` does. */
function computes42({ print }: TestProcess): number {
  print('42\n');
  return 0;
}

describe('the reference', () => {
  it.each(Object.entries(REFERENCE))('%s is that of this code (else: npm run docs)', async (file, make) => {
    expect(read(`docs/reference/${file}`)).toBe(await make());
  });
});

it.each(globSync(['*.md', 'docs/**/*.md'], { cwd: ROOT }))('%s links only to what is there', (path) => {
  const targets = [...read(path).matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, target = '']) => target);
  expect(targets.filter((target) => !existsSync(join(ROOT, dirname(path), target)))).toEqual([]);
});

it('each decision has a number of its own', () => {
  const numbers = globSync('docs/adr/*.md', { cwd: ROOT })
    .toSorted()
    .map((path) => Number(/\/(\d{4})-/.exec(path)?.[1]));
  expect(numbers).toEqual(numbers.map((_, index) => index + 1));
});
