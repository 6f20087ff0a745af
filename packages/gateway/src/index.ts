/**
 * The gateway: the only way out of a sandbox, in a process and under a user of its own, since it is the one that will hold
 * secrets. It has no rules yet, and no rules mean no traffic.
 */
export { createGateway, type Gateway } from './create-gateway.ts';
