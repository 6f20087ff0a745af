/** A program in the guest that notices when it did not run. */
import type { Sandbox } from '@space/sdk';

/** Milliseconds that the ticker sleeps; a gap of less than three of them is not told. */
const TICKER = `
import time
out, last = open('/dev/shm/gaps', 'w', buffering=1), time.time()
while True:
    time.sleep(0.001)
    now = time.time()
    if now - last > 0.003:
        print(last, now, file=out)
    last = now
`;

/**
 * The longest gap that a 1 ms ticker sees, in milliseconds by the guest's own clock, over each of `count` actions. `prepare` is
 * not measured; it returns the action.
 */
export async function stallsOver(
  sandbox: Sandbox,
  count: number,
  prepare: () => Promise<() => Promise<unknown>>,
): Promise<readonly number[]> {
  await sandbox.files.write('/tmp/ticker.py', TICKER);
  // That of an earlier ticker would say that this one runs.
  await sandbox.run('rm -f /dev/shm/gaps');
  const { processId } = await sandbox.start(['python3', '/tmp/ticker.py']);
  const windows: [number, number][] = [];
  try {
    await sandbox.run('until [ -e /dev/shm/gaps ]; do sleep 0.02; done');
    for (let round = 0; round < count; round++) {
      const action = await prepare();
      const from = await guestMs(sandbox);
      await action();
      windows.push([from, await guestMs(sandbox)]);
    }
  } finally {
    await sandbox.kill(processId).catch(() => undefined);
  }
  const gaps = (await sandbox.run('cat /dev/shm/gaps')).stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split(' ').map((second) => Number(second) * 1000) as [number, number]);
  return windows.map(([from, until]) => {
    const within = gaps.filter(([last, now]) => now > from && last < until).map(([last, now]) => now - last);
    if (within.length === 0) throw new Error('the ticker noticed nothing of a snapshot');
    return Math.max(...within);
  });
}

/** The guest's clock and ours may be far enough apart to hide a stall beside the window in which it is looked for. */
const guestMs = async (sandbox: Sandbox) => Number((await sandbox.run(['date', '+%s%N'])).stdout) / 1e6;
