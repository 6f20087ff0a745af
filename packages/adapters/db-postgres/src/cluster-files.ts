/** The files of the private cluster: made once, under another name until they are complete, and the few that are ours. */
import { chmod, chown, mkdir, open, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { AppError } from '@space/core';
import { clusterVersion } from './server-binaries.ts';
import { namesOfThisProcess, runAs, type ServerUser } from './server-user.ts';

const INITDB_TIMEOUT_MS = 120_000;
/** sun_path holds 108 bytes, the last of them zero. */
const MAX_SOCKET_PATH_BYTES = 107;
/** Of folders above ours that are missing: the server's user must get through, and need not look around. */
const PASSABLE = 0o711;
/** The one role, and owner of everything. */
export const ROLE = 'space';
export const DATABASE = 'postgres';

export function checkSocketPath(socketDir: string): void {
  const path = join(socketDir, '.s.PGSQL.5432');
  const length = Buffer.byteLength(path);
  if (length <= MAX_SOCKET_PATH_BYTES) return;
  throw new AppError(
    'unavailable',
    `The socket path ${path} has ${length} bytes; ${MAX_SOCKET_PATH_BYTES} are possible.`,
  );
}

/** Only the server's user and root get through it. */
export async function ensureSocketDir(socketDir: string, user: ServerUser): Promise<void> {
  await mkdir(dirname(socketDir), { recursive: true, mode: PASSABLE });
  await mkdir(socketDir, { recursive: true, mode: 0o700 });
  await chmod(socketDir, 0o700);
  await chown(socketDir, user.uid, user.gid);
}

/** Makes the cluster unless it is there. What an interrupted attempt left is thrown away: it never held anything. */
export async function ensureCluster(dataDir: string, binDir: string, user: ServerUser): Promise<void> {
  if ((await clusterVersion(dataDir)) !== null) return;
  await refuseForeignFiles(dataDir);
  const unfinished = `${dataDir}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(dirname(dataDir), { recursive: true, mode: PASSABLE });
  await mkdir(unfinished, { mode: 0o700 });
  await chown(unfinished, user.uid, user.gid);
  const initdb = [join(binDir, 'initdb'), '-D', unfinished, `--username=${ROLE}`];
  const options = [
    '--encoding=UTF8',
    '--locale=C.UTF-8',
    '--data-checksums',
    '--auth-local=peer',
    '--auth-host=reject',
  ];
  await runAs(user, [...initdb, ...options], INITDB_TIMEOUT_MS);
  await rename(unfinished, dataDir);
  const parent = await open(dirname(dataDir));
  await parent.sync().finally(() => parent.close());
}

/**
 * Who gets in: over the socket alone, and by what the kernel says of the caller, so there is no password to keep. That is
 * this process's user, the server's own, and root, who could be either.
 */
export async function writeAccessRules(dataDir: string, user: ServerUser): Promise<void> {
  const names = new Set([user.name, 'root', ...(await namesOfThisProcess())]);
  const map = [...names].map((name) => `space ${name} ${ROLE}\n`).join('');
  await writeOwned(join(dataDir, 'pg_ident.conf'), map, user);
  await writeOwned(join(dataDir, 'pg_hba.conf'), `local all ${ROLE} peer map=space\n`, user);
}

async function writeOwned(path: string, text: string, user: ServerUser): Promise<void> {
  const next = `${path}.next`;
  await writeFile(next, text, { mode: 0o600 });
  await chown(next, user.uid, user.gid);
  await rename(next, path);
}

async function refuseForeignFiles(dataDir: string): Promise<void> {
  const names = await readdir(dataDir).catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code === 'ENOENT') return null;
    throw thrown;
  });
  if (names === null) return;
  if (names.length > 0)
    throw new AppError('unavailable', `${dataDir} holds files that are no database; it is left alone.`);
  await rmdir(dataDir);
}

/** Small: a few dozen connections, and a write-ahead log that fits beside the sandboxes. Durability is never traded. */
export function serverArguments(dataDir: string, socketDir: string): readonly string[] {
  const settings = {
    listen_addresses: '',
    unix_socket_directories: socketDir,
    unix_socket_permissions: '0700',
    max_connections: '30',
    shared_buffers: '16MB',
    huge_pages: 'off',
    jit: 'off',
    wal_level: 'minimal',
    max_wal_senders: '0',
    min_wal_size: '32MB',
    max_wal_size: '128MB',
    autovacuum_max_workers: '1',
    fsync: 'on',
    full_page_writes: 'on',
    synchronous_commit: 'on',
    restart_after_crash: 'on',
    logging_collector: 'off',
    log_destination: 'stderr',
    log_line_prefix: '%m [%p] ',
    log_checkpoints: 'off',
    timezone: 'UTC',
  };
  return ['-D', dataDir, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}
