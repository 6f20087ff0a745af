import { AppError, type GatewayPort } from '@space/core';

export function createGateway(): GatewayPort {
  return {
    health: async () => ({ rules: 'none' }),
    async open({ sandboxId, host, port }) {
      throw new AppError('egress_refused', {
        detail: `No rules are loaded, so nothing leaves: ${sandboxId} asked for port ${port} of a host.`,
        facts: { host, port },
      });
    },
  };
}
