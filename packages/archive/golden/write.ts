/**
 * Writes an archive as the present version makes it, into `format-N`: a fixture for all later ones. Run once per format, by
 * the version that brings it: `node packages/archive/golden/write.ts`.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { formatArchiveRef, KeyBytes, type OrganisationId, type VaultName } from '@space/core';
import { makeWorld } from '../test/world.ts';

/** Bytes that pack well and are nowhere the same. */
const pattern = (length: number, seed: number) =>
  Buffer.from(Array.from({ length }, (_, at) => ((at >> 6) * seed) & 0xff));

const folder = join(import.meta.dirname, 'format-3');
await using world = await makeWorld();
const lifeId = await world.boot(pattern(600_000, 3));
await world.write(lifeId, 'memory', 0, pattern(300_000, 5));
const first = await world.point(lifeId);
await world.write(lifeId, 'memory', 5000, pattern(4096, 7));
const second = await world.point(lifeId, { parent: first, state: 'another device state' });
await world.write(lifeId, 'disk', 2 ** 20, pattern(4096, 11));
const third = await world.point(lifeId, { parent: second, state: null });
const move = {
  number: 2,
  generation: 3,
  nonce: '0123456789abcdef0123456789abcdef',
  settings: { name: 'one' },
  secrets: [
    { binding: 'api', placeholder: 'space-secret-0123456789abcdefghjk', env: 'API_TOKEN' },
    { binding: 'hidden', placeholder: 'space-secret-zyxwvtsrqpnmkjhgfedc', env: null },
  ],
};
const key = Buffer.from(Array.from({ length: 32 }, (_, at) => at));
const wrapped = {
  organisationId: 'org_0123456789abcdef' as OrganisationId,
  vault: 'acme' as VaultName,
  reference: { kms: 'cloud', key: 'alias/acme' },
  wrapped: pattern(97, 13),
};
const { ref } = await world.export([first, second, third], null, { move, seal: { key: new KeyBytes(key), wrapped } });
const points = [];
for (const point of [first, second, third]) {
  const disk = await world.diskOf(world.from, point);
  const { deviceState } = await world.from.readPoint(point);
  points.push({ point, disk, all: deviceState === null ? null : (await world.content(world.from, point)).digests });
}
for (const [path, bytes] of world.archive.objects) {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), bytes);
}
writeFileSync(
  join(folder, 'meaning.json'),
  `${JSON.stringify({ archive: formatArchiveRef(ref), key: key.toString('hex'), move, points }, null, 2)}\n`,
);
