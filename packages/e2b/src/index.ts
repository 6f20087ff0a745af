/**
 * A second face of the platform, for agents that were written for E2B: their SDKs work against it, unmodified. It is thin: each call
 * becomes one or a few of the use-cases that `@space/http` binds, with the authority of the same keys, and it keeps nothing itself.
 */
export { createEnvd, type Envd, type EnvdDeps, type EnvdTarget } from './envd/index.ts';
export { type E2bPlatform, e2bFace } from './face.ts';
export { fromE2bId, toE2bId } from './sandbox-ids.ts';
