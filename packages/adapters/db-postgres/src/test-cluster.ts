/** A private cluster for tests, in a folder of its own that is gone afterwards. */
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from '@space/control';
import { type PrivateCluster, type PrivateClusterOptions, startPrivateCluster } from './private-cluster.ts';

const ignore = () => undefined;
export const silent: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };

export interface TestFolder {
  readonly options: PrivateClusterOptions;
  start(): Promise<PrivateCluster>;
  remove(): Promise<void>;
}

export async function testFolder(): Promise<TestFolder> {
  const root = await mkdtemp(join(tmpdir(), 'space-db-'));
  await chmod(root, 0o711);
  const options = {
    dataDir: join(root, 'data'),
    socketDir: join(root, 'run'),
    user: await testUser(),
    logger: silent,
  };
  return {
    options,
    start: () => startPrivateCluster(options),
    remove: () => rm(root, { recursive: true, force: true }),
  };
}

/** Ours where set-up has run, else the one that Debian's package makes. */
async function testUser(): Promise<string> {
  const users = await readFile('/etc/passwd', 'utf8');
  return /^space-control:/m.test(users) ? 'space-control' : 'postgres';
}
