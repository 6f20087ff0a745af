/**
 * The node: what one machine does with microVMs. It composes three ports (a runtime, vaults, the guest channel) into the
 * orders of core's `NodePort`, and it is the only place where bytes from a guest are looked at.
 *
 * Every order on a sandbox runs alone (one lock per sandbox), checks its epoch before each effect, and leaves, when it
 * fails, what was there before.
 */
export { createNode, type Node, type NodeOptions, type TemplateSource } from './create-node.ts';
export type { PoolOptions } from './pool.ts';
