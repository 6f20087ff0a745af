/** The key of a vault on its way to the helper: over a connection of its own, never as a word of a request. */
import { closeSync } from 'node:fs';
import type { KeyBytes } from '@space/core';
import { socketPair } from './kernel.ts';

/** A descriptor from which the key is read, and then the token. `end`: both sides of it are closed here. */
export function lendKey(
  key: KeyBytes,
  token: string | null,
): { readonly descriptor: number; readonly end: () => void } {
  const { ours, theirs } = socketPair();
  // The helper may be gone before it has read it.
  ours.on('error', () => undefined);
  // Not joined with the token: that would be a copy of the key.
  ours.write(key.reveal());
  ours.end(token ?? '');
  return {
    descriptor: theirs,
    end() {
      closeSync(theirs);
      ours.destroy();
    },
  };
}
