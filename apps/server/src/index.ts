/** The platform in one process: control, node and HTTP, composed. Programs and whole-system tests start it from here. */
export { type Config, configFrom, type Listen } from './config.ts';
export { type Platform, startPlatform } from './platform.ts';
export { mountsNaming, processesNaming } from './remains.ts';
