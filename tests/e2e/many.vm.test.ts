/** Many sandboxes on real microVMs, small ones: in the full run only, since each takes a second or two of a small machine. */
import { freemem } from 'node:os';
import { join } from 'node:path';
import type { Sandbox } from '@space/sdk';
import { processesNaming } from '@space/server';
import { describe, expect, it } from 'vitest';
import { livesIn, makeWorld } from './world.ts';

const SMALL = { size: { memoryMib: 256, diskMib: 2048 }, snapshots: { everyMs: 'off' as const } };
const PAUSED = 200;
const COPIES = 20;
const HOUR_MS = 3_600_000;

describe.runIf(process.env['SPACE_FULL'] === '1')('on real microVMs', () => {
  it('two hundred paused sandboxes cost no process and no memory, and no read wakes one', {
    timeout: HOUR_MS,
  }, async () => {
    await using world = await makeWorld(64);
    const lives = join(world.config.dataDir, 'vaults/default/mnt/lives');
    const source = await world.create(SMALL);
    await source.run('echo kept > f');
    const before = freemem();
    const paused: Sandbox[] = [];
    while (paused.length < PAUSED - 1) {
      const copies = await source.fork(Math.min(4, PAUSED - 1 - paused.length));
      for (const copy of copies) {
        await copy.pause();
        paused.push(copy);
      }
    }
    await source.pause();
    const { node } = world.platform;
    expect((await node.capabilities()).memory.promisedMib).toBe(0);
    expect(await processesNaming(lives)).toEqual([]);
    expect(await livesIn(world.config)).toEqual([]);
    for (const one of paused) {
      await one.refresh();
      expect(one.status).toBe('paused');
      expect((await one.metrics()).now).toBeNull();
      await one.timeline();
    }
    expect(await processesNaming(lives)).toEqual([]);
    // The page cache, which is not free either, is the host's to take back.
    console.log(
      `${PAUSED} paused: free memory ${Math.round(before / 2 ** 20)} MiB before, ${Math.round(freemem() / 2 ** 20)} after`,
    );
    const [first, last] = [paused[0], paused.at(-1)];
    for (const one of [first, last, source]) expect(await one?.files.read('f')).toBe('kept\n');
    for (const one of [...paused, source]) await one.delete();
  });

  it('twenty copies of one source run at once, each of its own', { timeout: HOUR_MS }, async () => {
    await using world = await makeWorld(64, { memoryMib: (COPIES + 1) * 320 });
    const source = await world.create(SMALL);
    await source.run('echo of the source > f');
    const copies = await source.fork(COPIES);
    expect(copies).toHaveLength(COPIES);
    await Promise.all(copies.map((copy, index) => copy.files.write('own', `${index}`)));
    const told = await Promise.all(
      copies.map(
        async (copy) => (await copy.run('cat own f /etc/machine-id; head -c 16 /dev/urandom | od -An -tx1')).stdout,
      ),
    );
    expect(new Set(told).size).toBe(COPIES);
    for (const [index, text] of told.entries()) expect(text.startsWith(`${index}of the source\n`)).toBe(true);
    const secrets = told.flatMap((text) => text.split('\n').slice(1, 3));
    expect(new Set(secrets).size).toBe(2 * COPIES);
    expect((await source.run('ls')).stdout.trim()).toBe('f');
    for (const one of [...copies, source]) await one.delete();
  });
});
