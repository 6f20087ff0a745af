/**
 * @space/guest-image: from Debian packages to what a microVM needs (VMM, guest kernel, initramfs, base disk).
 * Set-up builds (`main.ts`); the platform only looks up what was built (`loadAssets`).
 */
export { type Assets, loadAssets, markUsed } from './assets.ts';
export { inputsDigest } from './inputs.ts';
export { confined } from './run.ts';
