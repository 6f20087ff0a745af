/** The pool on real microVMs: what a member becomes, and what is left of it when a process of ours dies. */
import { mkdtemp } from 'node:fs/promises';
import { type CreateOptions, Sandbox } from '@space/sdk';
import { processesNaming } from '@space/server';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Daemon, endDaemon, killRole, startDaemon } from './daemon.ts';
import { removeAll, testConfig } from './world.ts';

const SMALL = { size: { memoryMib: 256 } };
/** For one small member, and not for two. */
const ONE_MEMBER_MIB = 400;
const WHO =
  'hostname; cat /etc/hostname /etc/machine-id /run/space/sandbox /run/space/generation; grep 127.0.1.1 /etc/hosts | cut -f2; ' +
  'head -c 16 /dev/urandom | od -An -tx1 | tr -d " \n"; echo; date +%s%3N';

const config = { ...testConfig(await mkdtemp('/var/tmp/space-e2e-')), poolMib: ONE_MEMBER_MIB };
let daemon: Daemon;

beforeAll(async () => {
  daemon = await startDaemon(config);
});

afterAll(async () => {
  await endDaemon(daemon, 'SIGINT');
  await removeAll(config);
});

const create = (options: CreateOptions = SMALL) =>
  Sandbox.create({ baseUrl: daemon.url, apiKey: daemon.apiKey ?? '', ...options });
const vmms = async () => (await processesNaming(`${config.dataDir}/vaults/default/mnt/lives`)).toSorted();

/** Lines of its figures. */
async function figures(): Promise<readonly string[]> {
  const headers = { Authorization: `Bearer ${daemon.apiKey}` };
  const answer = await fetch(`${daemon.url}/metrics`, { headers }).catch(() => null);
  return (await answer?.text())?.split('\n') ?? [];
}

const hasMember = () => expect.poll(figures, { timeout: 60_000 }).toContain('space_pool_members{state="ready"} 1');

async function whoIs(sandbox: Sandbox) {
  const lines = (await sandbox.run(WHO)).stdout.trim().split('\n');
  const [hostname, file, machine, id, generation, hosts, random, now] = lines;
  return { names: [hostname, file, hosts], machine, id, generation, random, offMs: Math.abs(Number(now) - Date.now()) };
}

it('a member becomes a sandbox like any other, and nothing of its life before is seen', async () => {
  const missed = await create();
  await hasMember();
  const claimed = await create();
  expect(await figures()).toEqual(
    expect.arrayContaining(['space_pool_claims_total{outcome="hit"} 1', 'space_pool_claims_total{outcome="miss"} 1']),
  );
  expect(await claimed.processes({ ended: true })).toEqual([]);
  const [a, b] = [await whoIs(missed), await whoIs(claimed)];
  for (const [sandbox, who] of [
    [missed, a],
    [claimed, b],
  ] as const) {
    const name = sandbox.id.replace('_', '-');
    expect(who).toMatchObject({ names: [name, name, name], id: sandbox.id, generation: '1' });
    expect(who.offMs).toBeLessThan(5_000);
  }
  expect(b.machine).not.toBe(a.machine);
  expect(b.random).not.toBe(a.random);
  await missed.delete();
  // It lives on as any other does.
  await claimed.files.write('f', 'kept');
  const [copy] = await claimed.fork(1);
  if (copy === undefined) throw new Error('no copy');
  await claimed.pause();
  expect(await claimed.files.read('f')).toBe('kept');
  expect((await whoIs(claimed)).machine).toBe(b.machine);
  expect((await whoIs(copy)).machine).not.toBe(b.machine);
  await claimed.delete();
  await copy.delete();
});

it('what waits is ended when the node or the helper dies, and filled again', async () => {
  const sandbox = await create();
  await hasMember();
  const before = await vmms();
  expect(before).toHaveLength(2);
  await killRole(daemon, 'node');
  // The sandbox runs on; the member is another.
  const others = async () => (await vmms()).filter((one) => !before.includes(one)).length;
  await expect.poll(others, { timeout: 60_000 }).toBe(1);
  await hasMember();
  await expect.poll(vmms, { timeout: 30_000 }).toHaveLength(2);
  const [helper] = (await processesNaming(`${config.runDir}/helper/config`))
    .map((name) => Number(name.split(' ')[1]))
    .filter((pid) => pid !== daemon.process.pid);
  if (helper === undefined) throw new Error('the helper does not run');
  process.kill(helper, 'SIGKILL');
  const answer = async () => (await sandbox.run('echo on').catch(() => null))?.stdout;
  await expect.poll(answer, { timeout: 30_000 }).toBe('on\n');
  const other = await create();
  expect((await other.run('hostname')).stdout.trim()).toBe(other.id.replace('_', '-'));
  await hasMember();
  await expect.poll(vmms, { timeout: 30_000 }).toHaveLength(3);
});
