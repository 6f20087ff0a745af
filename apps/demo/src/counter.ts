/**
 * The program whose memory the demo watches: it counts in a variable, and holds a word drawn when it started, which is
 * nowhere but in its memory. It shows both in a file of the guest's RAM, and adds what it is told to.
 */
import type { Sandbox } from '@space/sdk';

const PROGRAM = `
import os, time
word, count = os.urandom(4).hex(), 0
while True:
    count += 1
    try:
        count += int(open('/dev/shm/add').read())
        os.remove('/dev/shm/add')
    except (FileNotFoundError, ValueError):
        pass
    with open('/dev/shm/shown.new', 'w') as shown:
        shown.write(f'{word} {count}')
    os.replace('/dev/shm/shown.new', '/dev/shm/shown')
    time.sleep(0.05)
`;

export interface Shown {
  readonly word: string;
  readonly count: number;
}

export async function startCounter(sandbox: Sandbox): Promise<void> {
  await sandbox.files.write('counter.py', PROGRAM);
  const started = await sandbox.run('nohup python3 counter.py >/dev/null 2>&1 & echo started');
  if (started.stdout.trim() !== 'started') throw new Error(`the counter did not start: ${started.stderr}`);
}

/** What it shows now; waits up to ten seconds for it to show anything. */
export async function readCounter(sandbox: Sandbox): Promise<Shown> {
  const { stdout } = await sandbox.run(
    'for i in $(seq 100); do [ -s /dev/shm/shown ] && break; sleep 0.1; done; cat /dev/shm/shown',
  );
  const [word = '', count = ''] = stdout.trim().split(' ');
  return { word, count: Number(count) };
}

/** Has it add a number, and waits until it did. */
export async function addToCounter(sandbox: Sandbox, amount: number): Promise<void> {
  await sandbox.run(
    `echo ${amount} > /dev/shm/add.new && mv /dev/shm/add.new /dev/shm/add; while [ -e /dev/shm/add ]; do sleep 0.05; done`,
  );
}

/** Whether it counts: two looks, the second larger. */
export async function isCounting(sandbox: Sandbox): Promise<boolean> {
  const before = await readCounter(sandbox);
  await sandbox.run('sleep 0.3');
  return (await readCounter(sandbox)).count > before.count;
}
