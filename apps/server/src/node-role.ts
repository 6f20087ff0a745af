/** The process that runs microVMs, and reads what their guests send. */
import { type Assets, loadAssets } from '@space/guest-image';
import { createLogger } from '@space/http/logger';
import { connectEgress, type Service, serveNode } from '@space/link';
import type { Node } from '@space/node';
import { connectHelper, helperSocket, type RootHelper } from '@space/root-helper';
import { Closers } from './closers.ts';
import { leaveNode, openNode } from './open-node.ts';
import { egressSocketOf, helperFolderOf, nodeSocketOf } from './places.ts';
import type { Role } from './role-messages.ts';
import { type LoadedTraces, loadTraces, openTracing } from './tracing.ts';

export function nodeRole(): Role {
  let assets: Assets;
  let traces: LoadedTraces | null = null;
  const closers = new Closers();
  let helper: RootHelper | null = null;
  let node: Node | null = null;
  let service: Service | null = null;
  return {
    async prepare(traced) {
      assets = await loadAssets();
      traces = await loadTraces(traced);
    },
    async begin({ config }, say) {
      const logger = createLogger({ name: 'node', level: config.logLevel });
      const tracing = openTracing(traces, config, closers);
      helper = await connectHelper(helperSocket(helperFolderOf(config)));
      node = await openNode({
        config,
        assets,
        helper,
        egress: connectEgress(egressSocketOf(config)),
        report: (text) => say({ kind: 'step', text }),
        onWarning: (message) => logger.warn(message),
        tracing,
      });
      const digests = node.neededBuilds();
      if (digests !== null) say({ kind: 'needed builds', digests });
      service = await serveNode({
        node,
        socketPath: nodeSocketOf(config),
        ...tracing,
        onUnexpected: (err, method) => logger.error({ err, method }, 'a call failed unexpectedly'),
      });
      say({ kind: 'ready', welcome: null });
    },
    async end() {
      await service?.close();
      if (node !== null) await leaveNode(node);
      helper?.close();
      await closers.closeAll();
    },
  };
}
