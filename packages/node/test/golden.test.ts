/** What the present version writes into a vault has the form of its format, as the fixtures of the core hold it fast. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { MANIFEST_FORMAT } from '@space/core';
import { expect, it } from 'vitest';
import { makeWorld } from './world.ts';

const GOLDEN = join(import.meta.dirname, '../../core/golden', `format-${MANIFEST_FORMAT}`);
const golden = (file: string): unknown => JSON.parse(readFileSync(join(GOLDEN, file), 'utf8'));

/** Every field, and where it is. */
function fieldsOf(value: unknown, at = ''): string[] {
  if (typeof value !== 'object' || value === null) return [at];
  return Object.entries(value)
    .flatMap(([name, part]) => fieldsOf(part, `${at}.${name}`))
    .sort();
}

it('what is written has the fields of its format, and no others', async () => {
  await using world = await makeWorld({ memory: 'in_place', reached: 'itself' });
  const sandboxId = await world.create();
  const written = async (id: Awaited<ReturnType<typeof world.ready>>) => (await world.vault.readPoint(id)).manifest;
  expect(fieldsOf(await written(await world.ready()))).toEqual(fieldsOf(golden('points/ready.json')));
  expect(fieldsOf(await written(await world.snapshot(sandboxId)))).toEqual(fieldsOf(golden('points/memory.json')));
  expect(fieldsOf(await written(await world.snapshot(sandboxId, 'disk')))).toEqual(
    fieldsOf(golden('points/disk.json')),
  );
  const records = async () => (await world.vault.sandboxes()).records.filter((one) => one.sandboxId === sandboxId);
  expect((await records()).map((one) => fieldsOf(one))).toEqual([fieldsOf(golden('sandboxes/running.json'))]);
  await world.pause(sandboxId);
  expect((await records()).map((one) => fieldsOf(one))).toEqual([fieldsOf(golden('sandboxes/paused.json'))]);
});
