/** While a platform runs, set-up is told once a day that what it runs on is in use, and does not prune it. */
import { markUsed } from '@space/guest-image';

const EVERY_MS = 24 * 60 * 60 * 1000;

/** By root. Returns what ends it. */
export function keepAssetsMarked(onWarning: (message: string) => void): () => void {
  const timer = setInterval(() => {
    markUsed().catch((thrown: unknown) => onWarning(`What set-up built could not be marked as in use: ${thrown}`));
  }, EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}
