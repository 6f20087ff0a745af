/** An installation of its own, as `npm start` runs it, which the measurements reach by its API alone. */
import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CreateOptions, getCapabilities, operations, Sandbox } from '@space/sdk';
import { endDaemon, startDaemon } from '../e2e/daemon.ts';
import { removeAll, testConfig } from '../e2e/world.ts';

/** For eleven sandboxes of the usual size, and one member of the pool. */
const USUAL = { memoryMib: 8000, poolMib: 600, vaults: 'plain' as 'encrypted' | 'plain' };
const FILL_LIMIT_MS = 120_000;
const LOOK_EVERY_MS = 50;

/** How fast a microVM was there, as the platform says. */
interface Start {
  /** Milliseconds since 1970. */
  readonly orderedAt: number;
  /** From the order until its vCPUs ran. */
  readonly runningMs: number;
}

export interface Installation extends AsyncDisposable {
  readonly connection: { readonly baseUrl: string; readonly apiKey: string };
  /** Of the file system of the vault that sandboxes are made in; it is there once one was. */
  vaultFolder(): Promise<string>;
  capabilities(): ReturnType<typeof getCapabilities>;
  create(options?: CreateOptions): Promise<Sandbox>;
  /** The newest start of the sandbox's microVM. */
  lastStart(sandboxId: string): Promise<Start>;
  /** Returns when a member waits in the pool, and how many creates have taken one so far. */
  poolFilled(): Promise<number>;
  poolHits(): Promise<number>;
  /** The processes that run guests now, and that of the pool's member. */
  vmmPids(): Promise<ReadonlySet<number>>;
  /** All its processes are killed; returns when those that were started in their place say that they are ready. */
  restart(): Promise<void>;
}

export async function startInstallation(wish: Partial<typeof USUAL> = {}): Promise<Installation> {
  const { vaults, ...sizes } = { ...USUAL, ...wish };
  const config = {
    ...testConfig(await mkdtemp('/var/tmp/space-bench-')),
    ...sizes,
    encrypted: vaults === 'encrypted',
  };
  let daemon = await startDaemon(config);
  const { apiKey, url: baseUrl } = daemon;
  if (apiKey === null) throw new Error('the installation did not show its API key');
  const connection = { baseUrl, apiKey };
  const figure = async (name: string): Promise<number> => {
    const answer = await fetch(`${baseUrl}/metrics`, { headers: { Authorization: `Bearer ${apiKey}` } });
    const line = (await answer.text()).split('\n').find((one) => one.startsWith(`${name} `));
    return Number(line?.slice(name.length));
  };
  const poolHits = () => figure('space_pool_claims_total{outcome="hit"}');
  return {
    connection,
    vaultFolder: () => vaultFolderIn(config.dataDir),
    capabilities: () => getCapabilities(connection),
    create: (options) => Sandbox.create({ ...connection, ...options }),
    async lastStart(sandboxId) {
      for await (const { startedAt, timings } of operations({ ...connection, sandboxId }))
        if (timings !== null) return { orderedAt: Date.parse(startedAt), runningMs: timings.runningMs };
      throw new Error(`${sandboxId} was not seen to start`);
    },
    poolHits,
    async poolFilled() {
      const deadline = performance.now() + FILL_LIMIT_MS;
      while ((await figure('space_pool_members{state="ready"}')) < 1) {
        if (performance.now() > deadline) throw new Error('the pool was not filled in time');
        await sleep(LOOK_EVERY_MS);
      }
      return poolHits();
    },
    vmmPids: () => vmmPidsIn(join(config.runDir, 'lives')),
    async restart() {
      await endDaemon(daemon, 'SIGKILL');
      daemon = await startDaemon(config, Number(new URL(baseUrl).port));
    },
    async [Symbol.asyncDispose]() {
      await endDaemon(daemon, 'SIGINT');
      await removeAll(config);
    },
  };
}

async function vaultFolderIn(dataDir: string): Promise<string> {
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' '));
  const folder = mounts.find(([, target, type]) => type === 'btrfs' && target?.startsWith(`${dataDir}/`))?.[1];
  if (folder === undefined) throw new Error('the vault is not mounted');
  return folder;
}

/** Each VMM is recorded in the folder of its life; a spare one, which runs nothing, in a folder of another name. */
async function vmmPidsIn(folder: string): Promise<ReadonlySet<number>> {
  const lives = (await readdir(folder)).filter((name) => name.startsWith('lif_'));
  const records = await Promise.all(
    lives.map((name) => readFile(join(folder, name, 'vmm.json'), 'utf8').catch(() => null)),
  );
  return new Set(records.flatMap((text) => (text === null ? [] : [(JSON.parse(text) as { pid: number }).pid])));
}
