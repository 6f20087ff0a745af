/**
 * The platform composed in one process, which is root: for the demo, and for tests that look inside. For use its parts run
 * apart (`supervisor.ts`). Each part that was opened is closed again, in reverse, when a later one fails to open, and at the end.
 */
import type { Control } from '@space/control';
import type { EgressPort } from '@space/core';
import { createGateway } from '@space/gateway';
import { loadAssets } from '@space/guest-image';
import { createLogger } from '@space/http';
import type { Node } from '@space/node';
import { connectHelper, startHelper } from '@space/root-helper';
import { keepBuild } from '@space/runtime-qemu/kept-builds';
import { Closers } from './closers.ts';
import type { Config } from './config.ts';
import { lockData } from './data-lock.ts';
import { dropBuilds } from './drop-builds.ts';
import { openEncryption } from './encryption.ts';
import { helperConfig } from './helper-config.ts';
import { type OpenControl, openControl } from './open-control.ts';
import { leaveNode, openNode } from './open-node.ts';
import { buildsFolderOf, gatewayFolderOf, lockFileOf, makeDataFolder, makeFolders } from './places.ts';
import { openStores } from './secret-stores.ts';
import { loadTraces, openTracing } from './tracing.ts';
import { findUsers, ROOT } from './users.ts';

export interface Platform {
  /** Base URL of the API. */
  readonly url: string;
  /** The certificate to be believed that was made here; null: there is none. */
  readonly authorityPath: string | null;
  readonly control: Control;
  readonly node: Node;
  /** Makes an API key; the secret is shown once and kept nowhere. */
  createApiKey(): Promise<string>;
  /** Closes everything at once; what ran since a sandbox's last point is lost. */
  close(): Promise<void>;
}

/**
 * `report` is told what is being done; the first start of a machine probes KVM, which takes up to ten seconds. `egress` carries
 * what leaves sandboxes in the place of the platform's own gateway.
 */
export async function startPlatform(
  config: Config,
  report: (step: string) => void = () => undefined,
  egress?: EgressPort,
): Promise<Platform> {
  const closers = new Closers();
  try {
    return await compose(config, { report, egress, closers });
  } catch (error) {
    await closers.closeAll().catch(() => undefined);
    throw error;
  }
}

interface Composing {
  readonly report: (step: string) => void;
  readonly egress: EgressPort | undefined;
  readonly closers: Closers;
}

async function compose(config: Config, { report, egress, closers }: Composing): Promise<Platform> {
  const logger = createLogger({ level: config.logLevel });
  const users = { ...(await findUsers()), node: ROOT };
  await makeDataFolder(config);
  closers.add(await lockData(lockFileOf(config), report), (lock) => lock.close());
  await makeFolders(config, users);
  const assets = await loadAssets();
  const builds = await keepBuild(buildsFolderOf(config), assets.vmm);
  const tracing = openTracing(await loadTraces(config.traces !== undefined), config, closers);
  const onWarning = (message: string) => logger.warn(message);
  const helperProcess = closers.add(
    await startHelper({
      program: assets.helper.program,
      config: helperConfig(config, assets, builds, users.node),
      onWarning,
    }),
    (running) => running.close(),
  );
  const helper = closers.add(await connectHelper(helperProcess.socketPath), async (connected) => connected.close());
  const gateway = closers.add(
    createGateway({
      folder: gatewayFolderOf(config),
      ...config.gateway,
      secretStores: openStores(config.gateway),
    }),
    async (open) => open.close(),
  );
  const node = await openNode({ config, assets, helper, egress: egress ?? gateway, report, onWarning, tracing });
  let closeNode = leaveNode;
  closers.add(node, (open) => closeNode(open));
  const needed = node.neededBuilds();
  if (needed !== null) await dropBuilds(config, needed, onWarning);
  let replace: OpenControl['replaceTls'] = () => undefined;
  const encryption = await openEncryption({ config, onChange: (tls) => replace(tls), onWarning });
  if (encryption !== null) closers.add(encryption, async (open) => open.close());
  const { tls: _, ...rest } = config;
  const { url, control, createApiKey, replaceTls } = closers.add(
    await openControl({
      config: encryption === null ? rest : { ...rest, tls: encryption.current() },
      node,
      gateway,
      listen: config.listen,
      databaseUser: users.control.name,
      logger,
      nodeUp: Promise.resolve(),
      tracing,
      report,
    }),
    (open) => open.close(),
  );
  replace = replaceTls;
  return {
    url,
    authorityPath: encryption?.authorityPath ?? null,
    control,
    node,
    createApiKey,
    async close() {
      closeNode = (open) => open.close();
      await closers.closeAll();
    },
  };
}
