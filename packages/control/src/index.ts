/**
 * The control plane: what sandboxes are, what is being done to them, and who may ask. Decisions are core's lifecycle
 * table; effects are the node's; what must be remembered lies in the records. Nothing here touches a VM, a file system or
 * a database by itself.
 *
 * Read `driver.ts` first: every lifecycle operation goes through it.
 */

export { isToken, type Reach } from './access.ts';
export { createApiKey, type Identity } from './api-keys.ts';
export * from './approval-records.ts';
export type * from './archive-records.ts';
export type * from './audit-records.ts';
export type * from './call-records.ts';
export * from './chain-entries.ts';
export * from './chain-records.ts';
export { type Control, createControl } from './control.ts';
export type * from './egress-records.ts';
export * from './event-records.ts';
export type * from './face-records.ts';
export type * from './history-records.ts';
export type * from './notice-records.ts';
export { decodeCursor, pageOf } from './page.ts';
export type { ControlPorts, Logger } from './ports.ts';
export type { ReconcileReport } from './reconcile.ts';
export * from './records.ts';
export * from './schedule-records.ts';
export * from './secret-records.ts';
export type * from './share-records.ts';
export type { SharedPort } from './shares.ts';
export type * from './template-records.ts';
export type * from './tenant-records.ts';
export type * from './vault-records.ts';
