/** The process that answers the API and keeps the records. It has no root, and reads nothing that a guest has framed. */
import { userInfo } from 'node:os';
import { createLogger, loadFramework } from '@space/http';
import { connectGateway, connectNode } from '@space/link';
import { Closers } from './closers.ts';
import { type OpenControl, openControl } from './open-control.ts';
import { gatewaySocketOf, nodeSocketOf } from './places.ts';
import { LISTENER_FD, type Role, type Welcome } from './role-messages.ts';
import { type LoadedTraces, loadTraces, openTracing } from './tracing.ts';

/** How long one that takes the place of another waits for the node before it answers without it. */
const NODE_WAIT_MS = 10_000;

export function controlRole(): Role {
  const closers = new Closers();
  let opened: OpenControl | null = null;
  let traces: LoadedTraces | null = null;
  return {
    async prepare(traced) {
      await loadFramework();
      traces = await loadTraces(traced);
    },
    async begin({ config, first }, say, stopped) {
      const logger = createLogger({ name: 'control', level: config.logLevel });
      const tracing = openTracing(traces, config, closers);
      const node = closers.add(
        connectNode({
          socketPath: nodeSocketOf(config),
          ...tracing,
          onUp: () => logger.info({}, 'the node answers'),
          onDown: (err) => logger.warn({ err }, 'the node does not answer'),
        }),
        (open) => open.close(),
      );
      const nodeUp = first
        ? node.whenUp(stopped)
        : node
            .whenUp(AbortSignal.any([stopped, AbortSignal.timeout(NODE_WAIT_MS)]))
            .catch(() => stopped.throwIfAborted());
      // Awaited once there is a database.
      nodeUp.catch(() => undefined);
      const databaseUser = userInfo().username;
      opened = closers.add(
        await openControl({
          config,
          node,
          gateway: connectGateway(gatewaySocketOf(config)),
          listen: { host: config.listen.host, fd: LISTENER_FD },
          databaseUser,
          nodeUp,
          tracing,
          logger,
          report: (text) => say({ kind: 'step', text }),
        }),
        (open) => open.close(),
      );
      say({ kind: 'ready', welcome: first ? await welcomeOf(opened, config.newKey) : null });

      async function welcomeOf({ url, firstRun, createApiKey }: OpenControl, newKey: boolean): Promise<Welcome> {
        const { accelerator } = await node.capabilities();
        const apiKey = firstRun || newKey ? await createApiKey() : null;
        return { url, emulated: accelerator.name === 'tcg', firstRun, apiKey };
      }
    },
    replaceTls: (tls) => opened?.replaceTls(tls),
    async end({ pause }, say) {
      if (pause && opened !== null) say({ kind: 'paused', result: await opened.pauseAll() });
      await closers.closeAll();
    },
  };
}
