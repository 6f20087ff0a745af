import { approvalsSuite } from './approvals-suite.ts';
import { callsSuite } from './calls-suite.ts';
import { egressSuite } from './egress-suite.ts';
import { historySuite } from './history-suite.ts';
import { MemoryRecords } from './memory-records.ts';
import { recordsSuite } from './records-suite.ts';
import { schedulesSuite } from './schedules-suite.ts';
import { sharesSuite } from './shares-suite.ts';
import { tenantsSuite } from './tenants-suite.ts';

recordsSuite('in memory', async () => new MemoryRecords());
tenantsSuite('in memory', async () => new MemoryRecords());
historySuite('in memory', async () => new MemoryRecords());
callsSuite('in memory', async () => new MemoryRecords());
schedulesSuite('in memory', async () => new MemoryRecords());
egressSuite('in memory', async () => new MemoryRecords());
sharesSuite('in memory', async () => new MemoryRecords());
approvalsSuite('in memory', async () => new MemoryRecords());
