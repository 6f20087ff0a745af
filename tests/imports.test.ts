/**
 * The tree is the architecture: imports point inward. Each package may import the packages that its row names, and
 * outside packages only as its package.json declares (which the linter checks). The core imports nothing of ours.
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..');

/** What the *source* (not the tests) of each package may import of ours. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  '@space/core': [],
  '@space/contract': ['@space/core'],
  '@space/control': ['@space/core', '@space/contract'],
  '@space/archive': ['@space/core'],
  '@space/node': ['@space/core', '@space/archive'],
  '@space/gateway': ['@space/core'],
  '@space/link': ['@space/core'],
  '@space/http': ['@space/core', '@space/contract'],
  '@space/e2b': ['@space/core', '@space/contract', '@space/http'],
  // Types only: the SDK has no runtime dependencies.
  '@space/sdk': ['@space/contract'],
  // What a user's tests start: the platform but for its machine.
  '@space/testing': ['@space/core', '@space/control', '@space/e2b', '@space/http', '@space/testkit'],
  // Tried on any installation, by what any user has.
  '@space/conformance': ['@space/sdk'],
  '@space/guest-proto': [],
  '@space/guest-image': [],
  '@space/guest-grpc': ['@space/core', '@space/guest-proto'],
  '@space/root-helper': ['@space/core'],
  '@space/runtime-qemu': ['@space/core', '@space/root-helper'],
  '@space/store-btrfs': ['@space/core', '@space/root-helper'],
  '@space/archive-folder': ['@space/core'],
  '@space/archive-s3': ['@space/core'],
  '@space/secrets-stores': ['@space/core'],
  '@space/kms-aws': ['@space/core'],
  '@space/kms-local': ['@space/core'],
  '@space/kms-transit': ['@space/core'],
  '@space/traces-otel': ['@space/core'],
  '@space/db-postgres': ['@space/core', '@space/control'],
};

interface Package {
  readonly name: string;
  readonly folder: string;
}

const packages: readonly Package[] = globSync('{packages,packages/adapters,apps}/*/package.json', { cwd: ROOT })
  .concat('guest/image/package.json', 'guest/proto/package.json')
  .map((path) => ({ name: JSON.parse(readFileSync(join(ROOT, path), 'utf8')).name, folder: dirname(path) }));

it.each(Object.keys(MAY_IMPORT))('%s imports inward only', (name) => {
  const found = packages.find((candidate) => candidate.name === name);
  if (found === undefined) throw new Error(`there is no package ${name}`);
  const allowed = MAY_IMPORT[name] ?? [];
  const outward = sourceFiles(found).flatMap((file) =>
    importsOf(file)
      .filter((target) => target !== name && !allowed.includes(target))
      .map((target) => `${file} → ${target}`),
  );
  expect(outward).toEqual([]);
});

it('every package but the programs and the test kit has a row', () => {
  const rows = Object.keys(MAY_IMPORT);
  const missing = packages.filter(
    ({ name, folder }) => !folder.startsWith('apps') && name !== '@space/testkit' && !rows.includes(name),
  );
  expect(missing).toEqual([]);
});

it('relative imports stay inside their package', () => {
  const escapes = packages.flatMap((one) =>
    sourceFiles(one).flatMap((file) =>
      relativeImportsOf(file)
        .filter((target) => !join(dirname(file), target).startsWith(`${one.folder}/`))
        .map((target) => `${file} → ${target}`),
    ),
  );
  expect(escapes).toEqual([]);
});

function sourceFiles({ folder }: Package): string[] {
  return globSync(`${folder}/**/*.ts`, { cwd: ROOT }).filter(
    (file) => !/node_modules|\.test\.ts$|\/test\/|\/gen\/|\/target\//.test(file),
  );
}

function specifiersOf(file: string): string[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  return [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].flatMap(([, specifier]) => specifier ?? []);
}

function importsOf(file: string): string[] {
  return specifiersOf(file)
    .filter((specifier) => specifier.startsWith('@space/'))
    .map((specifier) => specifier.split('/').slice(0, 2).join('/'));
}

function relativeImportsOf(file: string): string[] {
  return specifiersOf(file).filter((specifier) => specifier.startsWith('.'));
}
