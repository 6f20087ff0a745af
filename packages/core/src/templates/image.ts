/** Images of containers, as builds begin with them: where one is, and what one says of commands. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { BuildState } from './recipe.ts';

/** An archive that was uploaded under this hash. */
export interface ImageSource {
  readonly archive: string;
}

/** It was written in a guest. */
const stateOfImage = z.strictObject({
  user: z.string().min(1).max(256),
  cwd: z.string().startsWith('/').max(4096),
  env: z.record(z.string(), z.string()),
});

/** What an image says of the user, directory and environment of commands; undefined: nothing that can be used. */
export function parseImageState(text: string): BuildState | undefined {
  try {
    return stateOfImage.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Of what that image becomes on the disk of that ready snapshot. */
export function imageKey(ready: string, { archive }: ImageSource): string {
  return createHash('sha256')
    .update(JSON.stringify([ready, 'archive', archive]))
    .digest('hex');
}
