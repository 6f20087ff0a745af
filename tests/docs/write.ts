/** `npm run docs`: writes docs/reference. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { REFERENCE, ROOT } from './reference.ts';

for (const [file, make] of Object.entries(REFERENCE)) await writeFile(join(ROOT, 'docs/reference', file), await make());
