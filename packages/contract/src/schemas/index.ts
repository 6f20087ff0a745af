/** All schemas of the wire. */
export * from './archive.ts';
export * from './audit.ts';
export * from './event.ts';
export * from './exec.ts';
export * from './fields.ts';
export * from './files.ts';
export * from './metrics.ts';
export * from './network.ts';
export * from './operation.ts';
export * from './platform.ts';
export * from './ports.ts';
export * from './problem.ts';
export * from './sandbox.ts';
export * from './schedule.ts';
export * from './snapshot.ts';
export * from './snapshot-policy.ts';
export * from './tenants.ts';
