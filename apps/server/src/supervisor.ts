/**
 * The supervisor: the one process that a person or systemd starts, as root. It makes folders and takes the lock, and starts the
 * processes that do the work, each as its own user:
 *
 * ```
 *   supervisor (root) ─┬─ helper    (root)           mounts vaults, starts and ends VMMs, for the node
 *                      ├─ node      (space-node)     runs microVMs
 *                      ├─ control   (space-control)  API, records, PostgreSQL
 *                      └─ gateway   (space-gateway)  the way out
 * ```
 *
 * One that dies is started again; the others go on. When the supervisor dies, all end at once, and microVMs run on for the next
 * start. It reads nothing but its configuration and what these processes say.
 */
import { loadAssets } from '@space/guest-image';
import { startHelper } from '@space/root-helper/process';
import { keepBuild } from '@space/runtime-qemu/kept-builds';
import type { Config } from './config.ts';
import { lockData } from './data-lock.ts';
import { dropBuilds } from './drop-builds.ts';
import { type Encryption, openEncryption } from './encryption.ts';
import { helperConfig } from './helper-config.ts';
import { checkAddress, listenOn } from './listen.ts';
import { keepAssetsMarked } from './marked-assets.ts';
import type { PausedAll } from './pause-all.ts';
import { buildsFolderOf, lockFileOf, makeDataFolder, makeFolders, type RoleName, removeRunFolder } from './places.ts';
import type { FromRole, RoleConfig, Welcome } from './role-messages.ts';
import { type EndFacts, type OpenDescriptors, Supervised } from './supervised.ts';
import { findUsers } from './users.ts';

export interface SupervisedPlatform {
  readonly welcome: Welcome;
  /** The certificate to be believed that was made here; null: there is none. */
  readonly authorityPath: string | null;
  readonly pids: Readonly<Record<RoleName | 'helper', () => number | undefined>>;
  /** Pauses every sandbox, then ends everything. Null: control died meanwhile, and nobody knows. */
  pauseAndClose(): Promise<PausedAll | null>;
  /** Ends everything but running microVMs, which the next start takes up. */
  release(): Promise<void>;
}

export interface SuperviseOptions {
  readonly config: Config;
  /** Told what is being done until it is ready. */
  readonly report: (step: string) => void;
  /** Told when a process has ended by itself. */
  readonly onEnd: (facts: EndFacts) => void;
  /** Told when the helper has ended by itself. */
  readonly onHelperEnd: (message: string) => void;
}

/** Throws the reason when any of them cannot be started; nothing runs then. */
export async function superviseRoles({
  config,
  report,
  onEnd,
  onHelperEnd,
}: SuperviseOptions): Promise<SupervisedPlatform> {
  const users = await findUsers();
  let address = await checkAddress(config.listen);
  await makeDataFolder(config);
  const lock = await lockData(lockFileOf(config), report);
  await makeFolders(config, users);
  const assets = await loadAssets();
  const builds = await keepBuild(buildsFolderOf(config), assets.vmm);
  const encryption = await openEncryption({
    config,
    onChange: (tls) => roles.control.tell({ kind: 'tls', tls }),
    onWarning: onHelperEnd,
  });
  const helper = await startHelper({
    program: assets.helper.program,
    config: helperConfig(config, assets, builds, users.node),
    onWarning: onHelperEnd,
  });
  const unmark = keepAssetsMarked(onHelperEnd);
  let starting = true;
  let paused: PausedAll | null = null;
  const hear = (message: FromRole): void => {
    if (message.kind === 'step' && starting) report(message.text);
    if (message.kind === 'paused') paused = message.result;
    if (message.kind === 'needed builds') void dropBuilds(config, message.digests, onHelperEnd);
  };
  const supervise = (name: RoleName, openDescriptors: OpenDescriptors) => {
    const told = () => (name === 'control' ? forControl(config, encryption) : withoutSecrets(config));
    return new Supervised({ name, user: users[name], config: told, openDescriptors, onMessage: hear, onEnd });
  };
  const lockOnly = async () => ({ descriptors: [lock.fd], close: () => undefined });
  const roles = {
    node: supervise('node', lockOnly),
    gateway: supervise('gateway', lockOnly),
    control: supervise('control', async () => {
      const listener = await listenOn(address);
      address = listener.address;
      return { descriptors: [lock.fd, listener.fd], close: listener.close };
    }),
  };
  const endAll = async (pause: boolean): Promise<void> => {
    unmark();
    encryption?.close();
    // Control first: it needs the node until it has ended.
    await roles.control.stop(pause);
    await Promise.all([roles.node.stop(false), roles.gateway.stop(false)]);
    await helper.close();
    // The next start makes it anew.
    await removeRunFolder(config).catch((error: unknown) =>
      onHelperEnd(`${config.runDir} could not be removed: ${error}`),
    );
    await lock.close();
  };
  try {
    const [control] = await Promise.all([roles.control.start(), roles.node.start(), roles.gateway.start()]);
    starting = false;
    if (!control.welcome) throw new Error('The control process did not say where it serves.');
    return {
      welcome: control.welcome,
      authorityPath: encryption?.authorityPath ?? null,
      pids: {
        helper: () => helper.pid,
        node: () => roles.node.pid,
        control: () => roles.control.pid,
        gateway: () => roles.gateway.pid,
      },
      async pauseAndClose() {
        await endAll(true);
        return paused;
      },
      release: () => endAll(false),
    };
  } catch (error) {
    await endAll(false);
    throw error;
  }
}

function forControl({ tls: _, ...config }: Config, encryption: Encryption | null): RoleConfig {
  return encryption === null ? config : { ...config, tls: encryption.current() };
}

/** Without what is for control alone. */
function withoutSecrets({ databaseUrl: _, tls: __, ...rest }: Config): RoleConfig {
  return rest;
}
