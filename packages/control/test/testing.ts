/** For tests: the records in memory, and the suite that every adapter of the records passes. */
export { MemoryRecords } from './memory-records.ts';
export { recordsSuite } from './records-suite.ts';
