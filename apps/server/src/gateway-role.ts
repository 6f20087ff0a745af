/** The process that is to hold secrets and let traffic out. It holds none yet, and lets nothing out. */
import { createGateway } from '@space/gateway';
import { createLogger } from '@space/http/logger';
import { type Service, serveGateway } from '@space/link';
import { gatewaySocketOf } from './places.ts';
import type { Role } from './role-messages.ts';

export function gatewayRole(): Role {
  let service: Service | null = null;
  return {
    async begin({ config }, say) {
      const logger = createLogger({ name: 'gateway', level: config.logLevel });
      service = await serveGateway({
        gateway: createGateway(),
        socketPath: gatewaySocketOf(config),
        onUnexpected: (err, method) => logger.error({ err, method }, 'a call failed unexpectedly'),
      });
      say({ kind: 'ready', welcome: null });
    },
    async end() {
      await service?.close();
    },
  };
}
