/** A whole platform on real microVMs, in a folder of its own; disposing it proves that nothing is left. */
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { EgressPort } from '@space/core';
import { type CreateOptions, Sandbox } from '@space/sdk';
import { type Config, configFrom, mountsNaming, type Platform, processesNaming, startPlatform } from '@space/server';

export interface World extends AsyncDisposable {
  readonly platform: Platform;
  readonly config: Config;
  readonly connection: { readonly baseUrl: string; readonly apiKey: string };
  create(options?: CreateOptions): Promise<Sandbox>;
}

/** `egress`: a gateway that the test speaks for, in the place of the platform's. */
export async function makeWorld(vaultGib = 24, more: Partial<Config> = {}, egress?: EgressPort): Promise<World> {
  const config = { ...testConfig(await mkdtemp('/var/tmp/space-e2e-'), vaultGib), ...more };
  await mkdir(archiveFolderOf(config.dataDir));
  const platform = await startPlatform(config, undefined, egress);
  const connection = { baseUrl: platform.url, apiKey: await platform.createApiKey() };
  return {
    platform,
    config,
    connection,
    create: (options) => Sandbox.create({ ...connection, ...options }),
    async [Symbol.asyncDispose]() {
      await platform.close();
      await removeAll(config);
    },
  };
}

export function testConfig(dataDir: string, vaultGib = 24): Config {
  const argv = [
    '--data',
    dataDir,
    '--listen',
    '127.0.0.1:0',
    '--vault-size',
    String(vaultGib),
    // As one that all share, but where encrypted ones are what is tested: each world would make its own.
    '--vaults',
    'plain',
    '--memory',
    '6000',
    // Off, but where it is what is tested: filling it takes processor time from everything else.
    '--pool-memory',
    '0',
    '--log-level',
    'error',
    '--archive',
    `default=${archiveFolderOf(dataDir)}`,
  ];
  const config = configFrom(argv, {});
  if (config === null) throw new Error('no configuration');
  return config;
}

function archiveFolderOf(dataDir: string): string {
  return join(dataDir, 'archive');
}

/** Removes the folders of a closed platform; throws when anything of it still runs or is mounted. */
/** What runs on the vault of a world. What a pause has kept for its resume goes with the point, and is no life. */
export async function livesIn({ dataDir }: Config): Promise<readonly string[]> {
  const vault = join(dataDir, 'vaults/default/mnt');
  const kept = new Set((await readdir(join(vault, 'points'))).map((point) => `.staged-${point}`));
  return (await readdir(join(vault, 'lives'))).filter((name) => !kept.has(name)).sort();
}

export async function removeAll({ dataDir, runDir }: Config): Promise<void> {
  const left = [...(await processesNaming(dataDir, runDir)), ...(await mountsNaming(dataDir))];
  if (left.length > 0) throw new Error(`left over: ${left.join('; ')}`);
  await rm(dataDir, { recursive: true, force: true });
  await rm(runDir, { recursive: true, force: true });
}
