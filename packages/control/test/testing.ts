/** For tests: the records in memory, and the suites that every adapter of the records passes. */
export { approvalsSuite } from './approvals-suite.ts';

export { archivesSuite } from './archives-suite.ts';
export { callsSuite } from './calls-suite.ts';
export { chainSuite } from './chain-suite.ts';
export { egressSuite } from './egress-suite.ts';
export { historySuite } from './history-suite.ts';
export { MemoryRecords } from './memory-records.ts';
export { noticesSuite } from './notices-suite.ts';
export { recordsSuite } from './records-suite.ts';
export { schedulesSuite } from './schedules-suite.ts';
export { secretsSuite } from './secrets-suite.ts';
export { sharesSuite } from './shares-suite.ts';
export { templatesSuite } from './templates-suite.ts';
export { tenantsSuite } from './tenants-suite.ts';
export { vaultsSuite } from './vaults-suite.ts';
