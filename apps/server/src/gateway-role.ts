/** The process that lets traffic out of sandboxes, by the rules that control has set. */
import { createGateway } from '@space/gateway';
import { createLogger } from '@space/http/logger';
import { serveEgress, serveGateway } from '@space/link';
import { Closers } from './closers.ts';
import { egressSocketOf, gatewayFolderOf, gatewaySocketOf } from './places.ts';
import type { Role } from './role-messages.ts';
import { openStores } from './secret-stores.ts';

export function gatewayRole(): Role {
  const closers = new Closers();
  return {
    async begin({ config }, say) {
      const logger = createLogger({ name: 'gateway', level: config.logLevel });
      const gateway = closers.add(
        createGateway({
          folder: gatewayFolderOf(config),
          ...config.gateway,
          secretStores: openStores(config.gateway),
        }),
        async (open) => open.close(),
      );
      const onUnexpected = (err: unknown, method: string) =>
        logger.error({ err, method }, 'a call failed unexpectedly');
      const serveAll = [
        serveGateway({ gateway, socketPath: gatewaySocketOf(config), onUnexpected }),
        serveEgress({ egress: gateway, socketPath: egressSocketOf(config), onUnexpected }),
      ];
      for (const service of await Promise.all(serveAll)) closers.add(service, (open) => open.close());
      say({ kind: 'ready', welcome: null });
    },
    async end() {
      await closers.closeAll();
    },
  };
}
