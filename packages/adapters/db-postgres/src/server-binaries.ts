/** Finds PostgreSQL's server programs as Debian installs them: one folder per major version. */
import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@space/core';

const DEBIAN_ROOT = '/usr/lib/postgresql';

/** The major version that made the cluster; null when there is none yet. */
export async function clusterVersion(dataDir: string): Promise<string | null> {
  try {
    return (await readFile(join(dataDir, 'PG_VERSION'), 'utf8')).trim();
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw thrown;
  }
}

/** The folder with `initdb` and `postgres`: of the version that made the cluster, or the newest. */
export async function findServerBinaries(dataDir: string): Promise<string> {
  const wanted = await clusterVersion(dataDir);
  const installed = await installedVersions();
  const version = wanted === null ? installed[0] : installed.find((one) => one === wanted);
  if (version !== undefined) return join(DEBIAN_ROOT, version, 'bin');
  const have = installed.length === 0 ? 'none is installed' : `installed: ${installed.join(', ')}`;
  throw new AppError(
    'unavailable',
    wanted === null
      ? `PostgreSQL's server programs were not found in ${DEBIAN_ROOT}. Install Debian's package "postgresql", or set DATABASE_URL.`
      : `The database in ${dataDir} was made by PostgreSQL ${wanted}, whose programs are missing (${have}).`,
  );
}

/** Newest first. */
async function installedVersions(): Promise<readonly string[]> {
  const names = await readdir(DEBIAN_ROOT).catch(() => []);
  const complete: string[] = [];
  for (const name of names.filter((one) => /^\d+$/.test(one))) {
    const whole = await access(join(DEBIAN_ROOT, name, 'bin', 'initdb')).then(
      () => true,
      () => false,
    );
    if (whole) complete.push(name);
  }
  return complete.sort((a, b) => Number(b) - Number(a));
}
