/**
 * Root of a guest against its own plumbing. It may shut its agent out, which harms itself: calls end typed and in time, what
 * it leaves is rewound or deleted as ever, and nobody beside it notices.
 */
import { NONSENSE } from '@space/conformance/nonsense';
import { type Sandbox, type Snapshot, SpaceError } from '@space/sdk';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

const FULL = process.env['SPACE_FULL'] === '1';

/** It gives user processes 20 s, the agent 5 s more to say so, and 15 s on a fresh connection. */
const PAUSE_LIMIT_MS = 50_000;
/** By which a snapshot or a pause fails: asked on the channel that there was; on the way to a fresh one; without its port. */
const SILENT = ['snapshot_failed', 'agent_lost', 'link_lost'];
/** How long a command may take to start. */
const EXEC_LIMIT_MS = 40_000;

let world: World;
let neighbour: Sandbox;
let sandbox: Sandbox;
let before: Snapshot;
beforeAll(async () => {
  world = await makeWorld();
  neighbour = await world.create();
  sandbox = await world.create({ snapshots: { everyMs: 'off' } });
  await sandbox.run('echo kept > state');
  before = await sandbox.snapshot();
});
// By the way out that the errors name.
afterEach(async () => {
  await sandbox.rewind(before, { keepPresent: false });
  expect((await sandbox.run('cat state')).stdout).toBe('kept\n');
  expect(await answer(neighbour)).toBeLessThan(5_000);
}, 180_000);
afterAll(() => world[Symbol.asyncDispose]());
/** Attacks that leave the agent in place. */
const SURVIVED = `
  cd /
  # The agent among its own processes, which are frozen when it is asked to freeze them.
  echo 1 > /sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/cgroup.procs
  for place in /sys/fs/cgroup /sys /proc /dev/pts /dev/shm /dev /run; do mount -t tmpfs none $place; done
  kill -9 -1`;

/** Attacks after which the agent hears nothing, or says nothing. */
const SHUT_OUT = {
  'freezes the agent': 'echo 1 > /sys/fs/cgroup/agent/cgroup.freeze',
  'stops the agent as its debugger would': `python3 -c '
import ctypes, os, time
libc = ctypes.CDLL(None)
if os.fork() == 0:
    os.setsid()
    for fd in range(3): os.close(fd)
    assert libc.ptrace(16, 1, 0, 0) == 0
    time.sleep(1000000)
'`,
  'takes the ports of the agent away':
    'cd /sys/bus/virtio/drivers/virtio_console; setsid sh -c "echo virtio* > unbind" > /dev/null 2>&1 &',
  'speaks in the place of the agent': NONSENSE,
};

describe('root of a guest that', () => {
  it('hides the kernel’s files, moves its agent about and kills all that it can is served as before', async () => {
    expect(await sandbox.run(SURVIVED, { user: 'root' })).toMatchObject({ exitCode: 0 });
    await sandbox.pause();
    expect((await sandbox.run('cat state')).stdout).toBe('kept\n');
  });

  it.runIf(FULL).each(Object.entries(SHUT_OUT))('%s harms itself alone', { timeout: 600_000 }, async (_, attack) => {
    await shutOut(attack);
    const ends = [fails(sandbox.run('true'), EXEC_LIMIT_MS), fails(sandbox.pause(), PAUSE_LIMIT_MS)];
    while ((await Promise.race([...ends, later(1_000)])) === 'later')
      expect(await answer(neighbour)).toBeLessThan(5_000);
    expect(SILENT).toContain(await ends[1]);
    // It may have waited for the end of the pause.
    expect([...SILENT, 'operation_in_progress']).toContain(await ends[0]);
    expect((await sandbox.refresh()).status).toBe('running');
    const [child] = await sandbox.fork(1, { from: before });
    await using copy = child as Sandbox;
    expect((await copy.run('cat state')).stdout).toBe('kept\n');
    // The present cannot be kept; that is said, and it stays as it was.
    expect(SILENT).toContain(await fails(sandbox.rewind(before), PAUSE_LIMIT_MS));
  });

  it.runIf(FULL)('lets its agent go on is served again', { timeout: 600_000 }, async () => {
    const attack = `(sleep 60; echo 0 > /sys/fs/cgroup/agent/cgroup.freeze) > /dev/null 2>&1 &
      while :; do date +%s.%N > /dev/shm/tick; sleep 0.1; done > /dev/null 2>&1 &
      ${SHUT_OUT['freezes the agent']}`;
    await shutOut(attack);
    expect(SILENT).toContain(await fails(sandbox.pause(), PAUSE_LIMIT_MS));
    await expect.poll(() => sandbox.run('true').then(() => 'served', typed), { timeout: 120_000 }).toBe('served');
    const tick = async () => (await sandbox.run('cat /dev/shm/tick')).stdout;
    const first = await tick();
    await expect.poll(tick, { timeout: 10_000 }).not.toBe(first);
    await sandbox.pause();
  });
});

/** Of a command whose end nobody can tell any more. */
async function shutOut(attack: string): Promise<void> {
  const signal = AbortSignal.timeout(5_000);
  await sandbox.run(attack, { user: 'root', signal }).catch((thrown: unknown) => {
    if (!signal.aborted) typed(thrown);
  });
}

function typed(thrown: unknown): string {
  if (!(thrown instanceof SpaceError)) throw thrown;
  return thrown.code;
}

/** By which code, within the time. */
async function fails(call: Promise<unknown>, limitMs: number): Promise<string> {
  const startedAt = performance.now();
  const code = await call.then(() => 'nothing', typed);
  expect(performance.now() - startedAt).toBeLessThan(limitMs);
  return code;
}

async function answer(of: Sandbox): Promise<number> {
  const startedAt = performance.now();
  expect(await of.run(['/bin/true'])).toMatchObject({ exitCode: 0 });
  return performance.now() - startedAt;
}

function later(ms: number): Promise<'later'> {
  return new Promise((resolve) => setTimeout(resolve, ms, 'later'));
}
