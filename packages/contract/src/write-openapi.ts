/** Writes `openapi.json`, the committed form of the contract; a test fails when it is stale. */
import { writeFile } from 'node:fs/promises';
import { buildOpenApi } from './openapi.ts';

await writeFile(new URL('../openapi.json', import.meta.url), `${JSON.stringify(buildOpenApi(), null, 2)}\n`);
