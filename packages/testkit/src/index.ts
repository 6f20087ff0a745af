export * from './fake-files.ts';
export * from './fake-guest.ts';
export * from './fake-machine.ts';
export * from './fake-node.ts';
export * from './fake-runtime.ts';
export type { FakeProcessWorld, FakeProgram, FakePrograms } from './fake-shell.ts';
export * from './fake-vault.ts';
export * from './faults.ts';
export * from './ports.ts';
