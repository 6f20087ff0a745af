/**
 * What thousands of commands leave behind: of each a line in the audit, linked, and, for a day, its answer for who repeats it; nothing
 * in the guest or on the host.
 */
import { readdir } from 'node:fs/promises';
import { openDatabase } from '@space/db-postgres';
import type { Sandbox } from '@space/sdk';
import { processesNaming } from '@space/server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

const FULL = process.env['SPACE_FULL'] === '1';
const COMMANDS = Number(process.env['SPACE_COMMANDS'] ?? (FULL ? 5_000 : 0));
/** Ended commands that the agent knows by their ids: from so many on, each that is added drops one. */
const REMEMBERED = 1_024;
const AT_ONCE = 8;
/** Tables in which each has a row. */
const PER_COMMAND = ['audit', 'audit_links', 'calls'];

describe.runIf(COMMANDS > 0)('thousands of short commands', () => {
  let world: World;
  let sandbox: Sandbox;
  beforeAll(async () => {
    world = await makeWorld();
    sandbox = await world.create({ snapshots: { everyMs: 'off' } });
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it('leave nothing behind, in the guest or here', { timeout: 3_600_000 }, async () => {
    await run(sandbox, REMEMBERED + 100);
    const [before, rowsBefore] = [await look(world, sandbox), await rows(world)];
    await run(sandbox, COMMANDS);
    const [after, rowsAfter] = [await look(world, sandbox), await rows(world)];
    console.log(before, after, rowsBefore, rowsAfter);
    expect(after.cgroups).toBeLessThanOrEqual(40);
    expect(after.dyingCgroups - before.dyingCgroups).toBeLessThan(200);
    // Threads of the kernel come and go.
    expect(after.guestProcesses - before.guestProcesses).toBeLessThan(10);
    expect(after.agentFiles - before.agentFiles).toBeLessThan(5);
    expect(after.agentKib - before.agentKib).toBeLessThan(1_024);
    expect(after.kernelKib - before.kernelKib).toBeLessThan(16 * 1_024);
    expect(after.hostFiles - before.hostFiles).toBeLessThan(20);
    expect(after.hostMib - before.hostMib).toBeLessThan(64);
    expect(after.hostProcesses - before.hostProcesses).toBeLessThan(3);
    for (const [table, count] of Object.entries(rowsAfter)) {
      const added = count - (rowsBefore[table] ?? 0);
      expect(added, table).toBeLessThanOrEqual((PER_COMMAND.includes(table) ? COMMANDS : 0) + 10);
    }
  });
});

/** Each writes a file, so that something of it stays in memory. */
async function run(sandbox: Sandbox, count: number): Promise<void> {
  let left = count;
  const one = async () => {
    while (left > 0) {
      left -= 1;
      expect(await sandbox.run(`echo ${left} > file-${left % 100}`)).toMatchObject({ exitCode: 0 });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

const LOOK = `
cd /sys/fs/cgroup/user
find . -mindepth 1 -maxdepth 1 -type d | wc -l
sed -n 's/nr_dying_descendants //p' cgroup.stat
ls -d /proc/[0-9]* | wc -l
ls /proc/1/fd | wc -l
sed -n 's/VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/1/status
awk '/^(SUnreclaim|Percpu|KernelStack|PageTables):/ { sum += $2 } END { print sum }' /proc/meminfo`;

async function look({ config }: World, sandbox: Sandbox) {
  const { stdout } = await sandbox.run(LOOK, { user: 'root' });
  const [cgroups = 0, dyingCgroups = 0, guestProcesses = 0, agentFiles = 0, agentKib = 0, kernelKib = 0] = stdout
    .trim()
    .split('\n')
    .map(Number);
  return {
    ...{ cgroups, dyingCgroups, guestProcesses, agentFiles, agentKib, kernelKib },
    hostFiles: (await readdir('/proc/self/fd')).length,
    hostMib: Math.round(process.memoryUsage().rss / 2 ** 20),
    hostProcesses: (await processesNaming(config.dataDir, config.runDir)).length,
  };
}

/** Of each table. */
async function rows({ config }: World): Promise<Record<string, number>> {
  const address = { socketDir: `${config.runDir}/db`, user: 'space', database: 'postgres' };
  const { db, close } = await openDatabase(address, SILENT);
  try {
    const counts: Record<string, number> = {};
    for (const { name } of await db.introspection.getTables()) {
      const { count } = await db
        .selectFrom(name as 'audit')
        .select((of) => of.fn.countAll<string>().as('count'))
        .executeTakeFirstOrThrow();
      counts[name] = Number(count);
    }
    return counts;
  } finally {
    await close();
  }
}
