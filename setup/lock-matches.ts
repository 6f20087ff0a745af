/** Exits with 0 when node_modules in the given folder holds what its lock file asks for. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

interface LockedPackage {
  readonly version?: string;
  readonly resolved?: string;
  readonly optional?: boolean;
}

function readPackages(path: string): Map<string, LockedPackage> {
  const lock = JSON.parse(readFileSync(path, 'utf8')) as { packages: Record<string, LockedPackage> };
  return new Map(Object.entries(lock.packages).filter(([name]) => name.startsWith('node_modules/')));
}

const root = process.argv[2] ?? '.';
const wanted = readPackages(join(root, 'package-lock.json'));
/** npm's own note of what it installed. */
const installed = readPackages(join(root, 'node_modules/.package-lock.json'));

const identity = (entry: LockedPackage | undefined) => [entry?.version, entry?.resolved];
const same = [...wanted].every(
  ([name, entry]) =>
    isDeepStrictEqual(identity(entry), identity(installed.get(name))) || (entry.optional && !installed.has(name)),
);
const noMore = [...installed.keys()].every((name) => wanted.has(name));
process.exitCode = same && noMore ? 0 : 1;
