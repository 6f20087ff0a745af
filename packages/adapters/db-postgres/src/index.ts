/**
 * PostgreSQL for the control plane: a private server (`startPrivateCluster`), a pool with our schema (`openDatabase`), and
 * the records port on it (`createPostgresRecords`). Anybody's server will do: pass its URL to `openDatabase`.
 */
export { type Database, type DatabaseAddress, openDatabase } from './database.ts';
export { createPostgresRecords } from './postgres-records.ts';
export { type PrivateCluster, type PrivateClusterOptions, startPrivateCluster } from './private-cluster.ts';
