/**
 * Who a sandbox is after each transition, as a program sees it that runs in it all along: hostname, machine id, generation, the
 * sandbox's own id, the clock, and the first random bytes that it reads. It notes each change. A state in which some of it has
 * changed already and some has not would be a state of its own.
 */
import { setTimeout } from 'node:timers/promises';
import type { Sandbox } from '@space/sdk';
import { processesNaming } from '@space/server';
import { expect, it } from 'vitest';
import { lifeOf } from './look-inside.ts';
import type { World } from './world.ts';

const WEEK_MS = 7 * 24 * 60 * 60_000;
const COPIES = process.env['SPACE_FULL'] === '1' ? 16 : 4;
/** An emulated Python takes a second or more to start. */
const SLOWLY = { timeout: 20_000, interval: 100 };

const PROGRAM = `
import json, os, socket, sys, time
text = lambda path: open(path).read().strip()
log, last = [], None
while True:
    now = time.time()
    state = [socket.gethostname(), text('/etc/machine-id'), text('/run/space/generation'), text('/run/space/sandbox'), now > float(sys.argv[1])]
    # It stood still in the midst of reading, and its clock was set: that is half of one life and half of another.
    if abs(time.time() - now) > 3600:
        continue
    if state != last:
        log.append(dict(state=state, clock=now * 1000, random=os.urandom(16).hex()))
        last = state
        with open('/dev/shm/log.new', 'w') as out:
            json.dump(log, out)
        os.rename('/dev/shm/log.new', '/dev/shm/log')
    time.sleep(0.05)
`;

interface Seen {
  /** Hostname, machine id, generation, sandbox id, and whether the clock says this week. */
  readonly state: readonly [string, string, string, string, boolean];
  readonly clock: number;
  readonly random: string;
}

async function seenBy(sandbox: Sandbox): Promise<readonly Seen[]> {
  return JSON.parse((await sandbox.run('cat /dev/shm/log')).stdout) as Seen[];
}

/** Its guest believes that it is a week ago, and its program has seen that. */
async function setBack(sandbox: Sandbox): Promise<void> {
  const before = (await seenBy(sandbox)).length;
  const seconds = Math.round((Date.now() - WEEK_MS) / 1000);
  await sandbox.run(`date -s @${seconds}`, { user: 'root' });
  await expect.poll(async () => (await seenBy(sandbox)).length, SLOWLY).toBe(before + 1);
}

/** What the program saw first after a transition: all of it at once, and at the right time. */
async function firstAfter(sandbox: Sandbox, before: number, since: number): Promise<Seen> {
  await expect.poll(async () => (await seenBy(sandbox)).length, SLOWLY).toBeGreaterThan(before);
  const log = await seenBy(sandbox);
  expect(log.slice(before)).toHaveLength(1);
  const [first] = log.slice(before);
  if (first === undefined) return expect.unreachable('it saw nothing');
  expect(first.clock).toBeGreaterThan(since - 500);
  expect(first.clock).toBeLessThan(Date.now() + 500);
  const [host, , generation, id, isThisWeek] = first.state;
  await sandbox.refresh();
  expect([host, generation, id, isThisWeek]).toEqual([
    sandbox.id.replace('_', '-'),
    `${sandbox.fields.generation}`,
    sandbox.id,
    true,
  ]);
  return first;
}

export function identityCases(world: () => World): void {
  it('is told to its programs before their next instruction, after a week as well', { timeout: 300_000 }, async () => {
    await using sandbox = await world().create({ size: { memoryMib: 256 }, snapshots: { everyMs: 'off' } });
    await sandbox.files.write('identity.py', PROGRAM);
    const { processId } = await sandbox.start(
      `exec python3 /home/user/identity.py ${(Date.now() - WEEK_MS / 2) / 1000}`,
      {
        user: 'root',
      },
    );
    await expect.poll(async () => (await sandbox.run('cat /dev/shm/log')).exitCode, SLOWLY).toBe(0);
    const [own] = await seenBy(sandbox);
    if (own === undefined) return expect.unreachable('it has seen nothing');

    await setBack(sandbox);
    const before = (await seenBy(sandbox)).length;
    const since = Date.now();
    const children = await sandbox.fork(COPIES);
    const copies = [];
    for (const child of children) copies.push(await firstAfter(child, before, since));
    for (const child of children) await child.delete();
    for (const part of [0, 1, 3])
      expect(new Set([own, ...copies].map(({ state }) => state[part])).size).toBe(COPIES + 1);
    expect(copies.map(({ state }) => state[2])).toEqual(Array.from({ length: COPIES }, () => '1'));
    const drawn = [...(await seenBy(sandbox)), ...copies].map(({ random }) => random);
    expect(new Set(drawn).size).toBe(drawn.length);

    // What follows happens to the sandbox itself: it stays who it is.
    const stays = async (after: number, since: number, generation: number) => {
      const { state } = await firstAfter(sandbox, after, since);
      expect(state.slice(0, 3)).toEqual([...own.state.slice(0, 2), `${generation}`]);
    };
    await setBack(sandbox);
    let seen = (await seenBy(sandbox)).length;
    await sandbox.pause();
    let from = Date.now();
    await sandbox.resume();
    await stays(seen, from, 1);

    await setBack(sandbox);
    seen = (await seenBy(sandbox)).length;
    const point = await sandbox.snapshot();
    from = Date.now();
    const stream = sandbox.attach(processId)[Symbol.asyncIterator]();
    await stream.next();
    const end = stream.next().catch((thrown: unknown) => thrown);
    await sandbox.rewind(point, { keepPresent: false });
    await stays(seen, from, 2);
    expect(await end).toMatchObject({ code: 'link_lost' });

    const [found] = await processesNaming(`/${await lifeOf(world(), sandbox)}/memory`);
    process.kill(Number(found?.split(' ')[1]), 'SIGKILL');
    while ((await sandbox.refresh()).status !== 'crashed') await setTimeout(50);
    from = Date.now();
    await sandbox.resume();
    await stays(seen, from, 3);
  });
}
