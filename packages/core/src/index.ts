/**
 * The pure core: names, errors, the lifecycle table, what a snapshot is, and the ports that adapters fill. It imports
 * nothing of ours, touches no file and no socket, and knows neither a database nor a VMM.
 */
export * from './approvals/approval-life.ts';
export * from './approvals/canonical-request.ts';
export * from './approvals/shown-request.ts';
export { visibleLine, visibleText } from './approvals/visible-text.ts';
export * from './archiving.ts';
export * from './authority.ts';
export * from './cadence.ts';
export * from './egress/addresses.ts';
export * from './egress/cap.ts';
export * from './egress/classify/classify.ts';
export type { GraphqlKind } from './egress/classify/graphql.ts';
export * from './egress/classify/spoken.ts';
export * from './egress/decide-egress.ts';
export * from './egress/hosts.ts';
export * from './egress/network-policy.ts';
export * from './egress/registries.ts';
export { normaliseHostPattern } from './egress/rules.ts';
export * from './errors.ts';
export * from './expiry.ts';
export * from './idle.ts';
export * from './ids.ts';
export * from './lifecycle.ts';
export * from './limits.ts';
export * from './manifest.ts';
export * from './parse-manifest.ts';
export * from './pool.ts';
export * from './ports/archive.ts';
export * from './ports/clock.ts';
export * from './ports/egress.ts';
export * from './ports/gateway.ts';
export * from './ports/guest.ts';
export * from './ports/guest-files.ts';
export * from './ports/node.ts';
export * from './ports/port-connection.ts';
export * from './ports/runtime.ts';
export * from './ports/tracer.ts';
export * from './ports/vault.ts';
export * from './retention.ts';
export * from './sacrifice.ts';
export * from './schedule.ts';
export * from './size.ts';
export * from './snapshot-policy.ts';
export * from './space.ts';
