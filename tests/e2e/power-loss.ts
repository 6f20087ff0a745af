/**
 * The power goes while microVMs write and snapshots are taken. What was on the disk at that instant is all that the platform
 * finds when it starts again: the vault and the database.
 *
 * The witness counts, in its memory and on its disk, and has a word that it drew at its start. So it can say whether it is the
 * one that there was, how far back it is, and whether its disk and its memory are of one instant.
 */
import { setTimeout } from 'node:timers/promises';
import { Sandbox, type Snapshot } from '@space/sdk';
import { expect } from 'vitest';

/** A platform that serves. */
export interface Running {
  readonly connection: { readonly baseUrl: string; readonly apiKey: string };
}

const PROGRAM = `
import os, time
word, count = os.urandom(8).hex(), 0
block = bytearray(16 << 20)
while True:
    count += 1
    for at in range(0, len(block), 65536):
        block[at] = count & 255
    for path in ('/home/user/said', '/dev/shm/said'):
        with open(path + '.new', 'w') as out:
            out.write(f'{word} {count}')
            out.flush()
            os.fsync(out.fileno())
        os.rename(path + '.new', path)
    time.sleep(0.02)
`;

interface Said {
  readonly word: string;
  readonly disk: number;
  readonly memory: number;
}

interface Acknowledged {
  readonly snapshot: Snapshot;
  /** At least so far it had counted by then. */
  readonly count: number;
}

export interface Witness {
  readonly sandbox: Sandbox;
  readonly word: string;
  acknowledged: Acknowledged | null;
}

export async function placeWitnesses({ connection }: Running, number: number): Promise<readonly Witness[]> {
  const witnesses: Witness[] = [];
  for (let index = 0; index < number; index++) {
    const sandbox = await Sandbox.create({ ...connection, size: { memoryMib: 256 }, idle: { pauseAfterMs: null } });
    await sandbox.files.write('witness.py', PROGRAM);
    await sandbox.start('exec python3 witness.py');
    await expect.poll(async () => (await sandbox.run('cat /dev/shm/said')).exitCode, { timeout: 20_000 }).toBe(0);
    witnesses.push({ sandbox, word: (await saidBy(sandbox)).word, acknowledged: null });
  }
  return witnesses;
}

async function saidBy(sandbox: Sandbox): Promise<Said> {
  // Those of one round: it may be between the two.
  const { stdout } = await sandbox.run('cat /dev/shm/said; echo; cat said', { timeoutMs: 60_000 });
  const [memory = '', disk = ''] = stdout.split('\n');
  const [word = '', count] = memory.split(' ');
  expect(disk.split(' ')[0]).toBe(word);
  return { word, memory: Number(count), disk: Number(disk.split(' ')[1]) };
}

/** Snapshots of all of them, one after another, until it is stopped. */
export function snapshotAll(witnesses: readonly Witness[]): { stop(): Promise<void> } {
  let stopped = false;
  const workers = witnesses.map(async (witness) => {
    while (!stopped) {
      const { memory } = await saidBy(witness.sandbox);
      witness.acknowledged = { snapshot: await witness.sandbox.snapshot(), count: memory };
      await setTimeout(200);
    }
  });
  return {
    async stop() {
      stopped = true;
      await Promise.all(workers);
    },
  };
}

/** What was promised of each when the power went. */
export function promised(witnesses: readonly Witness[]): readonly Witness[] {
  return witnesses.map((witness) => ({ ...witness }));
}

/** Each is there, no further back than what was acknowledged, says so, and goes on. */
export async function expectRecovered(
  { connection }: Running,
  witnesses: readonly Witness[],
  cutAt: number,
): Promise<void> {
  for (const { sandbox: before, word, acknowledged } of witnesses) {
    const sandbox = await Sandbox.connect(before.id, connection);
    expect(sandbox.status).toBe('crashed');
    expect(sandbox.fields.crash?.detail.length).toBeGreaterThan(10);
    const { snapshots } = await sandbox.timeline();
    const [newest] = snapshots;
    if (newest === undefined || acknowledged === null) return expect.unreachable('nothing was acknowledged');
    expect(snapshots.find(({ id }) => id === acknowledged.snapshot.id)).toMatchObject({ state: 'good' });
    // What is lost is what came after its newest point, which it goes on from.
    expect(sandbox.fields.head).toBe(newest.id);
    expect(Date.parse(newest.takenAt)).toBeGreaterThanOrEqual(Date.parse(acknowledged.snapshot.takenAt));
    expect(Date.parse(newest.takenAt)).toBeLessThanOrEqual(cutAt);

    const { generation } = sandbox.fields;
    await sandbox.resume();
    expect(sandbox.fields.generation).toBe(generation + 1);
    const said = await saidBy(sandbox);
    expect(said.word).toBe(word);
    expect(said.memory).toBeGreaterThanOrEqual(acknowledged.count);
    expect(Math.abs(said.memory - said.disk)).toBeLessThanOrEqual(2);
    await sandbox.snapshot();
    await expect.poll(async () => (await saidBy(sandbox)).memory, { timeout: 20_000 }).toBeGreaterThan(said.memory);
  }
}
