import { MemoryRecords } from './memory-records.ts';
import { recordsSuite } from './records-suite.ts';

recordsSuite('in memory', async () => new MemoryRecords());
