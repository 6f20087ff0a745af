import { AppError, type EgressPort, type GatewayPort } from '@space/core';

export type Gateway = GatewayPort & EgressPort;

export function createGateway(): Gateway {
  return {
    health: async () => ({ rules: 'none' }),
    async carry({ sandboxId, host, port }) {
      throw new AppError('egress_refused', {
        detail: `No rules are loaded, so nothing leaves: ${sandboxId} asked for port ${port} of a host.`,
        facts: { host, port },
      });
    },
  };
}
