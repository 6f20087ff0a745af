/**
 * No name that a guest controls is ever opened on the host: what carries names between a user and a guest does not touch
 * the host's file system at all. So a link in a guest, however it is made, can lead nowhere on the host.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const CARRIERS = ['core', 'contract', 'http', 'control', 'node', 'adapters/guest-grpc', 'sdk'];
/** Write the document of the API, at build time; read the configuration of the client, whose path the environment says. */
const NO_CARRIERS = ['write-openapi.ts', 'config-file.ts'];

it.each(CARRIERS)('packages/%s opens no file and starts no process', (carrier) => {
  const folder = join(ROOT, 'packages', carrier, 'src');
  const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.endsWith('.test.ts') && !NO_CARRIERS.includes(file),
  );
  expect(sources.length).toBeGreaterThan(3);
  const touching = sources.filter((file) =>
    /['"](node:)?(fs|fs\/promises|child_process)['"]/.test(readFileSync(join(folder, file), 'utf8')),
  );
  expect(touching).toEqual([]);
});
