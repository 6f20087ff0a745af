/**
 * The gateway: the only way out of a sandbox, in a process and under a user of its own. It decides by the rules that control
 * has set (`@space/core`, `decide-egress.ts`), resolves names itself, ends the TLS of guests with an authority of their
 * organisation, and judges each request. Without rules, nothing leaves.
 */
export { createGateway, type Gateway, type GatewayOptions } from './create-gateway.ts';
export { dialThrough } from './upstream-proxy.ts';
