/**
 * @space/root-helper: what needs root, done by a process of its own (`program/`), and how the rest asks it.
 *
 *     supervisor (root) ── startHelper: writes its configuration, starts it, starts it again ──► helper (root)
 *     node (no privilege) ── connectHelper ── private unix socket, verbs with ids ─────────────►
 */
export {
  connectHelper,
  type HelperLimits,
  type PagesOfLife,
  type RootHelper,
  type StartedVmm,
  type VmmKind,
} from './client.ts';
export { type HelperConfig, type HelperVault, helperSocket, type VmmProgram } from './config.ts';
export { connectForFiles, type FileSocket, socketPair } from './kernel.ts';
export { type HelperProcess, startHelper } from './process.ts';
