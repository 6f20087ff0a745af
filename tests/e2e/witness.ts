/**
 * A program in the guest that can testify: a word drawn at its start and a counter, both only in its memory, and a file
 * that it holds open and that has no name any more. Asked, it answers with these, with what the guest's clock says, and
 * with fresh random bytes.
 */
import type { Sandbox } from '@space/sdk';

const PROGRAM = `
import json, os, socket, time
word, count = os.urandom(8).hex(), 0
held = open('/home/user/held', 'w+')
held.write(word); held.flush()
os.remove('/home/user/held')
while True:
    count += 1
    if os.path.exists('/dev/shm/ask'):
        os.remove('/dev/shm/ask')
        held.seek(0)
        answer = dict(word=word, count=count, held=held.read(), random=os.urandom(16).hex(), clock=time.time(),
            pid=os.getpid(), host=socket.gethostname(), machine=open('/etc/machine-id').read().strip())
        with open('/dev/shm/answer.new', 'w') as out:
            json.dump(answer, out)
        os.rename('/dev/shm/answer.new', '/dev/shm/answer')
    time.sleep(0.01)
`;

export interface Testimony {
  readonly word: string;
  readonly count: number;
  readonly held: string;
  readonly random: string;
  /** Seconds since 1970. */
  readonly clock: number;
  readonly pid: number;
  readonly host: string;
  readonly machine: string;
}

const ASK =
  'rm -f /dev/shm/answer; touch /dev/shm/ask; until [ -e /dev/shm/answer ]; do sleep 0.02; done; cat /dev/shm/answer';

export async function placeWitness(sandbox: Sandbox): Promise<Testimony> {
  await sandbox.files.write('witness.py', PROGRAM);
  await sandbox.run('nohup python3 witness.py >/dev/null 2>&1 &');
  return ask(sandbox);
}

/** Throws when the guest's clock is more than half a second off. */
export async function ask(sandbox: Sandbox): Promise<Testimony> {
  const before = Date.now() / 1000;
  const { stdout, stderr, exitCode } = await sandbox.run(ASK, { timeoutMs: 60_000 });
  const after = Date.now() / 1000;
  if (exitCode !== 0) throw new Error(`the witness does not answer: ${stderr}`);
  const testimony = JSON.parse(stdout) as Testimony;
  if (testimony.clock < before - 0.5 || testimony.clock > after + 0.5) {
    throw new Error(`the guest's clock says ${testimony.clock}, between ${before} and ${after} on the host`);
  }
  return testimony;
}
