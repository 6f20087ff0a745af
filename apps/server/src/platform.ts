/**
 * The platform, composed: assets → accelerator → vault → runtime → node → database → control → HTTP. Each part that was
 * opened is closed again, in reverse, when a later one fails to open, and at the end.
 */
import { randomBytes } from 'node:crypto';
import { chmod, chown, mkdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type Control, createApiKey, createControl, type Records } from '@space/control';
import { type Chance, type Clock, DEFAULT_VAULT, SIZE_LIMITS, type Vault } from '@space/core';
import { createPostgresRecords, openDatabase, startPrivateCluster } from '@space/db-postgres';
import { connectGuest } from '@space/guest-grpc';
import { type Assets, loadAssets } from '@space/guest-image';
import { createHttpServer, createLogger, listen } from '@space/http';
import { createNode, type Node } from '@space/node';
import { connectHelper, type RootHelper, startHelper } from '@space/root-helper';
import { openQemuRuntime, probeAccelerator } from '@space/runtime-qemu';
import { openVault } from '@space/store-btrfs';
import type { Config } from './config.ts';
import { helperConfig, runDirs, vaultFolder, vmmBuild } from './helper-config.ts';
import { type PausedAll, pauseAll } from './pause-all.ts';
import { portHolder } from './port-holder.ts';

const VERSION = '0.1.0';
/** Whose the node's part is: as long as all parts are one process, its own. */
const NODE_USER = { uid: 0, gid: 0 };

export interface Platform {
  /** Base URL of the API. */
  readonly url: string;
  readonly control: Control;
  readonly node: Node;
  /** Whether no API key existed before this start. */
  readonly firstRun: boolean;
  /** Makes an API key; the secret is shown once and kept nowhere. */
  createApiKey(): Promise<string>;
  /**
   * Pauses every running sandbox, then closes everything: nothing of the platform runs or is mounted afterwards. A sandbox
   * that cannot be paused is not harmed: its VM runs on, the vault stays mounted, and the next start takes it up.
   */
  pauseAndClose(): Promise<PausedAll>;
  /** Closes everything at once; what ran since a sandbox's last point is lost. */
  close(): Promise<void>;
  /** Lets go of running VMs, which live on, and closes the rest; the next start takes them up. */
  release(): Promise<void>;
}

/** `report` is told what is being done; the first start of a machine probes KVM, which takes up to ten seconds. */
export async function startPlatform(
  config: Config,
  report: (step: string) => void = () => undefined,
): Promise<Platform> {
  const closers: (() => Promise<unknown>)[] = [];
  const opened = <T>(value: T, close: (value: T) => Promise<unknown>): T => {
    closers.unshift(() => close(value));
    return value;
  };
  try {
    return await compose(config, report, opened, closers);
  } catch (error) {
    for (const close of closers) await close().catch(() => undefined);
    throw error;
  }
}

const clock: Clock = { now: () => Date.now(), monotonicMs: () => performance.now() };
const chance: Chance = { bytes: (count) => randomBytes(count) };

async function compose(
  config: Config,
  report: (step: string) => void,
  opened: <T>(value: T, close: (value: T) => Promise<unknown>) => T,
  closers: (() => Promise<unknown>)[],
): Promise<Platform> {
  await checkPort(config.listen);
  const logger = createLogger({ level: config.logLevel });
  await makeFolders(config);
  const assets = await loadAssets();
  const helperProcess = opened(
    await startHelper({
      program: assets.helper.program,
      config: helperConfig(config, assets, NODE_USER),
      onWarning: (message) => logger.warn(message),
    }),
    (running) => running.close(),
  );
  const helper = opened(await connectHelper(helperProcess.socketPath), async (connected) => connected.close());
  report('opening the vault');
  const vault = opened(
    await openVault({
      name: DEFAULT_VAULT,
      folder: vaultFolder(config, DEFAULT_VAULT),
      backing: config.vault.kind,
      helper,
    }),
    (open) => open.close(),
  );
  report('probing for KVM');
  const node = await openNode(config, assets, { vault, helper }, (message) => logger.warn(message));
  // From here on the vault is the node's to close. While sandboxes run it stays mounted.
  closers.shift();
  // Until sandboxes run, a start that fails leaves nothing mounted.
  let closeNode = async () => {
    const running = (await node.inspectAll()).some(({ real }) => real === 'running');
    await (running ? node.release() : node.close());
  };
  opened(node, () => closeNode());
  report('starting the database');
  const records = await openRecords(config, logger, opened);
  const control = opened(createControl({ node, records, clock, chance, logger }), (open) => open.close());
  report('reconciling');
  await control.start();
  const http = opened(
    createHttpServer({
      useCases: control,
      authenticate: (token, project) => control.authenticate(token, project),
      logger,
      version: VERSION,
      hosts: config.hosts,
      ...(config.tls === undefined ? {} : { tls: config.tls }),
    }),
    (open) => open.close(),
  );
  const url = await listen(http, config.listen);
  const firstRun = !(await records.tenants.hasApiKeys());

  const closeAll = async () => {
    for (const close of closers) await close();
  };
  const release = async () => {
    closeNode = () => node.release();
    await closeAll();
  };
  const close = async () => {
    closeNode = () => node.close();
    await closeAll();
  };
  return {
    url,
    control,
    node,
    firstRun,
    createApiKey: async () => (await createApiKey({ records, chance, clock })).secretKey,
    async pauseAndClose() {
      await http.close();
      const result = await pauseAll(control, records);
      await (result.failed.length === 0 ? close() : release());
      return result;
    },
    close,
    release,
  };
}

/** Learns at once, not after everything else was started, that the address cannot be had. */
async function checkPort({ host, port }: Config['listen']): Promise<void> {
  const probe = createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      probe.once('error', reject);
      probe.listen(port, host, resolve);
    });
  } catch (cause) {
    const isTaken = cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE';
    const holder = isTaken ? await portHolder(port) : null;
    const why = isTaken ? `is in use${holder === null ? '' : ` by ${holder}`}` : 'cannot be had';
    throw new Error(`The address ${host}:${port} ${why}. Choose another with --listen HOST:PORT.`, { cause });
  } finally {
    await new Promise((resolve) => probe.close(resolve));
  }
}

async function makeFolders({ dataDir, runDir }: Config): Promise<void> {
  for (const folder of [dataDir, join(dataDir, 'vaults'), '/run/space', runDir]) {
    await mkdir(folder, { recursive: true, mode: 0o711 });
    await chmod(folder, 0o711);
  }
  // Of the node alone.
  for (const folder of [join(dataDir, 'node'), runDirs({ runDir }).probe]) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await chown(folder, NODE_USER.uid, NODE_USER.gid);
  }
}

async function openNode(
  config: Config,
  assets: Assets,
  { vault, helper }: { vault: Vault; helper: RootHelper },
  onWarning: (message: string) => void,
): Promise<Node> {
  const { vmm, kernel, initramfs, templates } = assets;
  const parts = { vmm: vmmBuild(assets), kernel, initramfs, helper, runDir: runDirs(config).lives };
  const accelerator = await probeAccelerator({
    ...parts,
    workDir: runDirs(config).probe,
    cacheFile: join(config.dataDir, 'node', 'accelerator.json'),
  });
  const runtime = await openQemuRuntime({ ...parts, accelerator: accelerator.name, onWarning });
  const node = createNode({
    runtime,
    connectGuest: (vm, openMs) => connectGuest((port) => vm.connect(port), { vmEnded: vm.ended, limits: { openMs } }),
    vaults: [vault],
    templates: Object.values(templates).map(({ name, disk, digest }) => ({ name, diskPath: disk, digest })),
    clock,
    chance,
    memoryMib: config.memoryMib,
    limits: SIZE_LIMITS,
    facts: { runtime: 'qemu', accelerator, vmmVersion: vmm.version, jail: runtime.jail, encrypted: false },
  });
  try {
    await node.open();
  } catch (error) {
    await runtime.close();
    throw error;
  }
  return node;
}

async function openRecords(
  config: Config,
  logger: ReturnType<typeof createLogger>,
  opened: <T>(value: T, close: (value: T) => Promise<unknown>) => T,
): Promise<Records> {
  const address =
    config.databaseUrl === undefined
      ? opened(
          await startPrivateCluster({
            dataDir: join(config.dataDir, 'postgres'),
            socketDir: join(config.runDir, 'db'),
            user: 'space-db',
            logger,
          }),
          (cluster) => cluster.close(),
        ).address
      : { url: config.databaseUrl };
  const database = opened(await openDatabase(address, logger), (open) => open.close());
  return createPostgresRecords(database);
}
