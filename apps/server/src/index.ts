/** The platform: composed in one process, for tests that look inside, or as its processes. Programs and whole-system tests start it from here. */
export { type Config, configFrom, type Listen } from './config.ts';
export { openEncryption } from './encryption.ts';
export { openKms } from './kms.ts';
export { apiServer } from './open-control.ts';
export { keysFolderOf } from './places.ts';
export { type Platform, startPlatform } from './platform.ts';
export { mountsNaming, processesNaming } from './remains.ts';
export { type SupervisedPlatform, superviseRoles } from './supervisor.ts';
