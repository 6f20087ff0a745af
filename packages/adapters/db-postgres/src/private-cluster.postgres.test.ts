import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { appendFile, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { DEFAULT_ORGANISATION } from '@space/core';
import { type Kysely, sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Database, openDatabase } from './database.ts';
import { createPostgresRecords } from './postgres-records.ts';
import { type PrivateCluster, startPrivateCluster } from './private-cluster.ts';
import { MIGRATIONS } from './schema.ts';
import { silent, type TestFolder, testFolder } from './test-cluster.ts';

let folder: TestFolder;
const open: { close(): Promise<void> }[] = [];

beforeEach(async () => {
  folder = await testFolder();
});
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
  await folder.remove();
});

async function start(): Promise<PrivateCluster> {
  const cluster = await folder.start();
  open.push(cluster);
  return cluster;
}

async function connect(cluster: PrivateCluster): Promise<Database> {
  const database = await openDatabase(cluster.address, silent);
  open.push(database);
  return database;
}

const isAlive = async (pid: number) => {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => 'State:\tX');
  return !/^State:\s+[ZX]/m.test(status);
};

async function until(probe: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!(await probe())) {
    if (performance.now() > deadline) throw new Error('it did not come to that');
    await sleep(20);
  }
}

const pidOf = ({ pid }: PrivateCluster) => {
  if (pid === null) throw new Error('the server is down');
  return pid;
};

const addKey = (database: Database, id: string) =>
  database.db
    .insertInto('api_keys')
    .values({
      id,
      prefix: 'p',
      organisation_id: DEFAULT_ORGANISATION,
      roles: ['admin'],
      sha256: randomBytes(32),
      created_at: new Date(),
    })
    .execute();

const countKeys = async (database: Database) => {
  const { rows } = await sql<{ n: number }>`select count(*) as n from api_keys`.execute(database.db);
  return rows[0]?.n;
};

describe('the private cluster', () => {
  it('starts, keeps what it was given over a restart, and leaves no process', async () => {
    const first = await folder.start();
    const database = await openDatabase(first.address, silent);
    await addKey(database, 'key_1');
    await database.close();
    const pid = pidOf(first);
    await first.close();
    await first.close();
    expect(await isAlive(pid)).toBe(false);
    const again = await connect(await start());
    expect(await countKeys(again)).toBe(1);
    const { rows } = await sql<{ setting: string }>`
      select setting from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit')`.execute(
      again.db,
    );
    expect(rows).toEqual([{ setting: 'on' }, { setting: 'on' }, { setting: 'on' }]);
  });

  it('has a migration take as long as it needs, and no other statement', async () => {
    const cluster = await start();
    const slow = { up: async (db: Kysely<unknown>) => void (await sql`select pg_sleep(1)`.execute(db)) };
    const migrations = { ...MIGRATIONS, '9999_slow': slow };
    const database = await openDatabase(cluster.address, silent, { migrations, statementTimeoutMs: 300 });
    open.push(database);
    await addKey(database, 'key_1');
    await expect(sql`select pg_sleep(1)`.execute(database.db)).rejects.toThrow(/statement timeout/);
  });

  it('is no server for anybody else', async () => {
    const { address } = await start();
    if (!('socketDir' in address)) throw new Error('it has a socket');
    expect((await stat(address.socketDir)).mode & 0o777).toBe(0o700);
    if (process.getuid?.() !== 0) return;
    const psql = ['/usr/bin/psql', '-h', address.socketDir, '-U', address.user, '-d', 'postgres', '-c', 'select 1'];
    const asNobody = ['--reuid=65534', '--regid=65534', '--clear-groups', '--', ...psql];
    await expect(promisify(execFile)('setpriv', asNobody)).rejects.toThrow(/Permission denied/);
  });

  it('is adopted when the process that started it was killed', async () => {
    const source = new URL('./private-cluster.ts', import.meta.url).href;
    const program = `
      const { startPrivateCluster } = await import(${JSON.stringify(source)});
      const ignore = () => undefined;
      const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
      const cluster = await startPrivateCluster({ ...${JSON.stringify({ ...folder.options, logger: undefined })}, logger });
      console.log(cluster.pid);
      setInterval(ignore, 1000);`;
    const launcher = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(launcher.stdout, 'data')) as [Buffer];
    launcher.kill('SIGKILL');
    await once(launcher, 'exit');
    const cluster = await start();
    expect(cluster.pid).toBe(Number(line.toString()));
    const database = await connect(cluster);
    await addKey(database, 'key_1');
    // An adopted server is watched as any other.
    process.kill(pidOf(cluster), 'SIGKILL');
    await until(() => countKeys(database).then(Boolean, () => false));
  });

  it('comes back by itself after it died, with all that was acknowledged, and the pool lives on', async () => {
    const cluster = await start();
    const database = await connect(cluster);
    for (let round = 1; round <= 3; round++) {
      await addKey(database, `key_${round}`);
      const pid = pidOf(cluster);
      process.kill(pid, 'SIGKILL');
      await until(async () => !(await isAlive(pid)));
      const failed = await countKeys(database).catch((err: unknown) => err);
      if (typeof failed !== 'number') expect(failed).toBeInstanceOf(Error);
      await until(() => countKeys(database).then(Boolean, () => false));
      expect(await countKeys(database)).toBe(round);
      await until(async () => cluster.pid !== null);
      expect(cluster.pid).not.toBe(pid);
    }
  });

  it('has what waited for no disk once something later did, also when it is killed', async () => {
    const cluster = await start();
    const database = await connect(cluster);
    const { calls } = createPostgresRecords(database);
    const call = {
      apiKeyId: 'key_0000000000000001' as never,
      idempotencyKey: 'one',
      ...{ route: 'pauseSandbox', digest: 'd', requestId: 'req_1', owner: 'o' },
      answer: null,
      at: new Date(),
    };
    expect(await calls.claim(call, 'next')).toBeNull();
    await calls.keepAnswer(call, '"done"', 'next');
    // Of any connection: each has its own settings, and none is left as it was set for one statement.
    const settings = await Promise.all(
      Array.from({ length: 8 }, () =>
        sql<{ synchronous_commit: string }>`show synchronous_commit`.execute(database.db),
      ),
    );
    expect(settings.map(({ rows }) => rows[0]?.synchronous_commit)).toEqual(Array(8).fill('on'));
    await addKey(database, 'key_1');
    const pid = pidOf(cluster);
    process.kill(pid, 'SIGKILL');
    await until(async () => cluster.pid !== null && cluster.pid !== pid);
    await until(() => countKeys(database).then(Boolean, () => false));
    expect((await calls.claim(call, 'now'))?.answer).toBe('"done"');
  });

  it('is stopped by close also while it is down', async () => {
    const cluster = await folder.start();
    const pid = pidOf(cluster);
    process.kill(pid, 'SIGKILL');
    await until(async () => !(await isAlive(pid)));
    await cluster.close();
    await sleep(500);
    const text = await readFile(join(folder.options.dataDir, 'postmaster.pid'), 'utf8').catch(() => '');
    const left = Number(text.split('\n')[0]);
    if (left > 0) expect(await isAlive(left)).toBe(false);
  });

  it('is made anew when making it was interrupted', async () => {
    await mkdir(`${folder.options.dataDir}.unfinished/base`, { recursive: true });
    await writeFile(`${folder.options.dataDir}.unfinished/PG_VERSION`, '15\n');
    const database = await connect(await start());
    expect(await countKeys(database)).toBe(0);
    expect(await readdir(dirname(folder.options.dataDir))).not.toContain('data.unfinished');
  });

  it('says why it does not start', async () => {
    const first = await folder.start();
    await first.close();
    await appendFile(join(folder.options.dataDir, 'postgresql.conf'), '\nno_such_setting = 1\n');
    await expect(folder.start()).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('no_such_setting'),
    });
  });

  it('refuses what cannot work, before it does anything', async () => {
    const { options } = folder;
    const long = { ...options, socketDir: `/tmp/${'x'.repeat(100)}` };
    await expect(startPrivateCluster(long)).rejects.toThrow(/107/);
    if (process.getuid?.() === 0) {
      await expect(startPrivateCluster({ ...options, user: 'no-such-user' })).rejects.toThrow(/no-such-user/);
    }
    await mkdir(options.dataDir);
    await writeFile(join(options.dataDir, 'letter.txt'), 'mine');
    await expect(startPrivateCluster(options)).rejects.toThrow(/left alone/);
    await writeFile(join(options.dataDir, 'PG_VERSION'), '9\n');
    await expect(startPrivateCluster(options)).rejects.toThrow(/made by PostgreSQL 9/);
  });
});

describe('the database', () => {
  it('is migrated once by several processes that start at the same time', async () => {
    const cluster = await start();
    const databases = await Promise.all(Array.from({ length: 4 }, () => connect(cluster)));
    for (const database of databases) expect(await countKeys(database)).toBe(0);
  });

  it('that does not answer is unavailable', async () => {
    const nowhere = { socketDir: folder.options.socketDir, user: 'space', database: 'postgres' };
    await expect(openDatabase(nowhere, silent)).rejects.toMatchObject({ code: 'unavailable' });
    await expect(openDatabase({ url: 'postgres://127.0.0.1:1/x' }, silent)).rejects.toMatchObject({
      code: 'unavailable',
    });
  });
});
