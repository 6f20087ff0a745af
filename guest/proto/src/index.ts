/**
 * The guest contract in TypeScript: messages and service descriptors, generated from `space/guest/v1/*.proto` by
 * `generate.sh`. Nothing is written by hand; a test fails when `gen/` is older than the contract.
 */
export * from '../gen/space/guest/v1/files_pb.ts';
export * from '../gen/space/guest/v1/machine_pb.ts';
export * from '../gen/space/guest/v1/processes_pb.ts';
export * from '../gen/space/guest/v1/tunnels_pb.ts';
