/** What a power cut leaves of a machine under load is enough to go on from. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { startPlatform } from '@space/server';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type CuttableFolder, makeCuttableFolder } from './cuttable-folder.ts';
import { expectRecovered, placeWitnesses, promised, type Running, snapshotAll } from './power-loss.ts';
import { removeAll, testConfig } from './world.ts';

const CUTS = process.env['SPACE_FULL'] === '1' ? 20 : 1;

let disk: CuttableFolder;
let running: Running & AsyncDisposable;
beforeAll(async () => {
  disk = await makeCuttableFolder();
  await mkdir(join(disk.folder, 'archive'));
  running = await startOn(disk.folder);
});
afterAll(async () => {
  try {
    await running?.[Symbol.asyncDispose]();
  } finally {
    await disk?.[Symbol.asyncDispose]();
  }
});

/** The platform on a folder that is there, empty or not; a key is made where none is given. */
async function startOn(folder: string, apiKey?: string): Promise<Running & AsyncDisposable> {
  const config = testConfig(folder);
  const platform = await startPlatform(config);
  return {
    connection: { baseUrl: platform.url, apiKey: apiKey ?? (await platform.createApiKey()) },
    async [Symbol.asyncDispose]() {
      await platform.close();
      await removeAll(config);
    },
  };
}

it(`loses no more than what came after the last point of each sandbox when the power goes, ${CUTS} times`, {
  timeout: 120_000 + CUTS * 60_000,
}, async () => {
  const witnesses = await placeWitnesses(running, 2);
  const load = snapshotAll(witnesses);
  await expect.poll(() => witnesses.every(({ acknowledged }) => acknowledged !== null), { timeout: 60_000 }).toBe(true);
  const cuts = [];
  for (let count = 0; count < CUTS; count++) {
    await setTimeout(200 + Math.random() * 2_500);
    const before = promised(witnesses);
    const place = await disk.cut();
    cuts.push({ place, before, at: Date.now() });
  }
  await load.stop();
  const { apiKey } = running.connection;
  // What ran is killed, and its files go: the machine that starts again has nothing but the cut.
  await running[Symbol.asyncDispose]();
  for (const [index, { place, before, at }] of cuts.entries()) {
    running = await startOn(place, apiKey);
    await expectRecovered(running, before, at);
    // The last goes at the end of all.
    if (index < cuts.length - 1) await running[Symbol.asyncDispose]();
  }
});
