/** The process that runs microVMs, and reads what their guests send. */
import { type Assets, loadAssets } from '@space/guest-image';
import { createLogger } from '@space/http/logger';
import { type Service, serveNode } from '@space/link';
import type { Node } from '@space/node';
import { connectHelper, helperSocket, type RootHelper } from '@space/root-helper';
import { leaveNode, openNode } from './open-node.ts';
import { helperFolderOf, nodeSocketOf } from './places.ts';
import type { Role } from './role-messages.ts';

export function nodeRole(): Role {
  let assets: Assets;
  let helper: RootHelper | null = null;
  let node: Node | null = null;
  let service: Service | null = null;
  return {
    async prepare() {
      assets = await loadAssets();
    },
    async begin({ config }, say) {
      const logger = createLogger({ name: 'node', level: config.logLevel });
      helper = await connectHelper(helperSocket(helperFolderOf(config)));
      node = await openNode({
        config,
        assets,
        helper,
        report: (text) => say({ kind: 'step', text }),
        onWarning: (message) => logger.warn(message),
      });
      service = await serveNode({
        node,
        socketPath: nodeSocketOf(config),
        onUnexpected: (err, method) => logger.error({ err, method }, 'a call failed unexpectedly'),
      });
      say({ kind: 'ready', welcome: null });
    },
    async end() {
      await service?.close();
      if (node !== null) await leaveNode(node);
      helper?.close();
    },
  };
}
