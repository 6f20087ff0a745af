/** Processes on real microVMs: whatever becomes of their readers, and whatever they do to their sandbox. */
import { createHash } from 'node:crypto';
import type { ExecEvent, Sandbox } from '@space/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

/** How long the simplest command may take in a sandbox that is in trouble. */
const ANSWER_LIMIT_MS = 5_000;

let world: World;
let sandbox: Sandbox;
beforeAll(async () => {
  world = await makeWorld();
  sandbox = await world.create();
});
afterAll(() => world[Symbol.asyncDispose]());

it('wakes a program at its time, and not at the next tick of 250 a second', async () => {
  const NAPS = `import time
def nap():
    start = time.monotonic()
    time.sleep(0.001)
    return (time.monotonic() - start) * 1000
print(min(nap() for _ in range(100)))`;
  const { stdout } = await sandbox.run(['python3', '-c', NAPS]);
  expect(Number(stdout)).toBeGreaterThanOrEqual(1);
  expect(Number(stdout)).toBeLessThan(3.5);
});

describe('a stream is taken up again', () => {
  const COUNT = `for i in $(seq 1 600); do echo line $i; sleep 0.01; done; exit 3`;
  const COUNTED = Array.from({ length: 600 }, (_, index) => `line ${index + 1}\n`).join('');

  it('without gap or repeat after a dropped connection, over a snapshot, and after a pause', async () => {
    const { processId } = await sandbox.start(COUNT);
    const dropped = new AbortController();
    const first = await readUntil(sandbox.attach(processId, { signal: dropped.signal }), 500);
    dropped.abort();

    const second = sandbox.attach(processId, { stdoutOffset: first.length });
    let text = first + (await readUntil(second, 500));
    await sandbox.snapshot();
    text += await readUntil(second, 500);
    await sandbox.pause();
    const rest = await Array.fromAsync(second).catch((error: unknown) => error);
    if (Array.isArray(rest)) throw new Error('the stream outlived the pause');
    expect(rest).toMatchObject({ code: 'link_lost' });

    expect((await sandbox.refresh()).status).toBe('paused');
    const third = await collect(sandbox.attach(processId, { stdoutOffset: text.length }));
    expect(text + third.text).toBe(COUNTED);
    expect(third.end).toMatchObject({ exitCode: 3, signal: null });
    expect(third.lostBytes).toBe(0);
  });

  it('by the SDK itself, when asked to, and the command has run through', async () => {
    const events = sandbox.exec(COUNT, { reattach: true });
    let text = await readUntil(events, 300);
    await sandbox.pause();
    const rest = await collect(events);
    text += rest.text;
    expect(text).toBe(COUNTED);
    expect(rest.end).toMatchObject({ exitCode: 3 });
  });

  it('of a command that has ended, with its end; one that never was is not found', async () => {
    const { processId } = await sandbox.start('echo done; exit 7');
    const ended = async () =>
      (await sandbox.processes({ ended: true })).find((one) => one.processId === processId)?.end;
    await expect.poll(ended, { timeout: 10_000 }).toMatchObject({ exitCode: 7 });
    expect(await collect(sandbox.attach(processId))).toMatchObject({ text: 'done\n', end: { exitCode: 7 } });
    expect((await sandbox.processes()).map((one) => one.processId)).not.toContain(processId);
    const ahead = Array.fromAsync(sandbox.attach(processId, { stdoutOffset: 6 }));
    await expect(ahead).rejects.toMatchObject({ code: 'bad_request' });
    const unknown = Array.fromAsync(sandbox.attach('prc_0000000000000000'));
    await expect(unknown).rejects.toMatchObject({ code: 'not_found' });
  });

  it('in a fork, each copy for itself', async () => {
    const { processId } = await sandbox.start(COUNT);
    const before = await readUntil(sandbox.attach(processId), 300);
    const copies = await sandbox.fork(2);
    const texts = await Promise.all(
      [sandbox, ...copies].map(async (one) => (await collect(one.attach(processId))).text),
    );
    expect(before).toBe(COUNTED.slice(0, before.length));
    for (const text of texts) expect(text).toBe(COUNTED);
    for (const copy of copies) await copy.delete();
  });
});

describe('output', () => {
  it('of 100 MB is intact', async () => {
    const expected = createHash('sha256');
    let expectedBytes = 0;
    const block = Buffer.from(Array.from({ length: 100_000 }, (_, index) => `${index + 1}\n`).join(''));
    while (expectedBytes < 100_000_000) {
      expected.update(block);
      expectedBytes += block.length;
    }
    const rounds = expectedBytes / block.length;
    const hash = createHash('sha256');
    let bytes = 0;
    const command = `seq 1 100000 > /dev/shm/block; for i in $(seq ${rounds}); do cat /dev/shm/block; done`;
    for await (const event of sandbox.exec(command)) {
      if (event.type === 'lost') throw new Error('output was lost');
      if (event.type !== 'stdout') continue;
      hash.update(event.data);
      bytes += event.data.length;
    }
    expect(bytes).toBe(expectedBytes);
    expect(hash.digest('hex')).toBe(expected.digest('hex'));
  });

  it('without end for a reader that stops takes no memory, here or in the agent', async () => {
    const reader = sandbox.exec('exec yes');
    let processId = '';
    for (let count = 0; count < 20; count++) {
      const { value } = await reader.next();
      if (value?.type === 'started') processId = value.processId;
    }
    const agentKib = async () => Number((await sandbox.run('grep VmRSS /proc/1/status')).stdout.match(/\d+/)?.[0]);
    const printed = async () =>
      (await sandbox.processes()).find((one) => one.processId === processId)?.stdoutBytes ?? 0;
    let last = 0;
    const stands = async () => {
      const before = last;
      last = await printed();
      return last > 0 && last === before;
    };
    await expect.poll(stands, { timeout: 30_000, interval: 500 }).toBe(true);
    const [before, hereBefore] = [await agentKib(), process.memoryUsage().rss];
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(await printed()).toBe(last);
    expect((await agentKib()) - before).toBeLessThan(2_048);
    expect(before).toBeLessThan(32 * 1024);
    expect(process.memoryUsage().rss - hereBefore).toBeLessThan(64 * 2 ** 20);
    // Without any reader it goes on, and the agent stays as it is.
    await reader.return(undefined);
    await expect.poll(async () => (await printed()) - last, { timeout: 10_000 }).toBeGreaterThan(5_000_000);
    expect((await agentKib()) - before).toBeLessThan(4_096);
    await sandbox.kill(processId);
  });
});

describe('input', () => {
  it('of 5 MB goes through cat intact', async () => {
    const bytes = Buffer.alloc(5_000_000);
    for (let at = 0; at < bytes.length; at += 4) bytes.writeUInt32LE((at * 2_654_435_761) >>> 0, at);
    const { stdoutBytes, exitCode } = await sandbox.run('cat', { stdin: bytes });
    expect(exitCode).toBe(0);
    expect(Buffer.compare(stdoutBytes, bytes)).toBe(0);
  });

  it('need not be read; without it stdin is empty', async () => {
    expect(await sandbox.run('head -c 3', { stdin: 'x'.repeat(3_000_000) })).toMatchObject({
      exitCode: 0,
      stdout: 'xxx',
    });
    expect((await sandbox.run('cat; echo end')).stdout).toBe('end\n');
  });

  it('waits for a paused sandbox, and arrives once', async () => {
    const { processId } = await sandbox.start('cat', { stdin: true });
    await sandbox.writeInput(processId, 'one ', { offset: 0 });
    await sandbox.pause();
    expect(await sandbox.writeInput(processId, 'one two', { offset: 0, eof: true })).toBe(7);
    expect(await collect(sandbox.attach(processId))).toMatchObject({ text: 'one two', end: { exitCode: 0 } });
  });
});

describe('a terminal', () => {
  it('has a size, hears of another, and runs an interactive shell that outlives its reader', async () => {
    const { processId } = await sandbox.start(['/bin/bash', '--norc', '-i'], {
      pty: { cols: 100, rows: 30, term: 'xterm' },
      env: { PS1: '$ ' },
    });
    const type = (text: string) => sandbox.writeInput(processId, text);
    const sees = async (text: string) => {
      const screen = async () => {
        const stop = new AbortController();
        const timer = setTimeout(() => stop.abort(), 400);
        const { text: seen } = await collect(sandbox.attach(processId, { signal: stop.signal }));
        clearTimeout(timer);
        return seen;
      };
      await expect.poll(screen, { timeout: 20_000 }).toContain(text);
    };
    await sees('$ ');
    await type('stty size; echo $TERM $((6*7))\n');
    await sees('30 100\r\nxterm 42\r\n');
    await type('trap "echo resized" WINCH\n');
    await sandbox.resizeTerminal(processId, { cols: 120, rows: 40 });
    await type('stty size; tty\n');
    await sees('40 120\r\n/dev/pts/');
    await sees('resized');
    // Ctrl-C reaches what is in the foreground, and not the shell.
    await type('sleep 1000\n');
    await expect.poll(async () => (await sandbox.run('pgrep -c sleep')).stdout.trim(), { timeout: 10_000 }).toBe('1');
    await type('\x03');
    await type('echo "still here: $?"\n');
    await sees('still here: 130');
    expect(await sandbox.processes()).toMatchObject([{ processId, pty: true, leaderAlive: true }]);
    await type('exit 5\n');
    expect((await collect(sandbox.attach(processId))).end).toMatchObject({ exitCode: 5 });
  });

  it('shows top', async () => {
    const { stdout, exitCode } = await sandbox.run('top -b -n 1 | head -20', { pty: { cols: 120, rows: 40 } });
    expect(exitCode).toBe(0);
    expect(stdout).toContain('load average');
  });

  it('is hung up when its input is ended', async () => {
    const { processId } = await sandbox.start('trap "exit 9" HUP; while :; do sleep 0.1; done', {
      pty: { cols: 80, rows: 24 },
    });
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await sandbox.writeInput(processId, '', { eof: true });
    expect((await collect(sandbox.attach(processId))).end).toMatchObject({ exitCode: 9 });
  });
});

describe('kill', () => {
  it('ends a tree with double-forked children in sessions of their own, before it answers', async () => {
    const { processId } = await sandbox.start(
      'for i in 1 2 3; do (setsid bash -c "(setsid sleep 4242 &) ; sleep 4242" &) ; done; sleep 4242',
    );
    const count = async () => Number((await sandbox.run('pgrep -cf "^sleep 4242" || true')).stdout);
    await expect.poll(count, { timeout: 15_000 }).toBe(7);
    await sandbox.kill(processId, 'SIGTERM', { target: 'leader' });
    await expect.poll(count, { timeout: 15_000 }).toBeGreaterThanOrEqual(6);
    await sandbox.kill(processId);
    expect(await count()).toBe(0);
    expect((await sandbox.processes()).map((one) => one.processId)).not.toContain(processId);
  });
});

describe('a sandbox in trouble still answers', () => {
  it('while a process takes all memory; the end says that memory ran out', async () => {
    await using fresh = await world.create();
    const hog = fresh.run(['python3', '-c', 'a=[]\nwhile True: a.append(bytearray(1000000))']);
    const answers = await answersUntil(hog, fresh);
    expect(Math.max(...answers)).toBeLessThan(ANSWER_LIMIT_MS);
    expect(await hog).toMatchObject({ exitCode: null, signal: 'SIGKILL', oom: true, timedOut: false });
    expect(await fresh.run('true')).toMatchObject({ exitCode: 0, oom: false });
  });

  it('while a process takes all memory of a sandbox in which others are at work', async () => {
    // Their code is dropped and read again all the time, so that the kernel would end nothing for minutes.
    const { processId } = await sandbox.start(AT_WORK);
    const hog = sandbox.run(['python3', '-c', 'a=[]\nwhile True: a.append(bytearray(100000))'], { timeoutMs: 45_000 });
    const answers = await answersUntil(hog, sandbox);
    expect(Math.max(...answers)).toBeLessThan(ANSWER_LIMIT_MS);
    expect(await hog).toMatchObject({ exitCode: null, signal: 'SIGKILL', oom: true, timedOut: false });
    await sandbox.kill(processId);
  });

  it('during a fork bomb, which can be killed', async () => {
    const { processId } = await sandbox.start('bomb() { bomb | bomb & }; bomb; sleep 1000');
    const answers: number[] = [];
    for (let round = 0; round < 5; round++) answers.push(await answer());
    expect(Math.max(...answers)).toBeLessThan(ANSWER_LIMIT_MS);
    await sandbox.kill(processId);
    expect(await answer()).toBeLessThan(ANSWER_LIMIT_MS);
    expect(await sandbox.processes()).toEqual([]);
  });

  it('with a full disk', async () => {
    await using full = await world.create();
    expect((await full.run(FILL, { user: 'root' })).stdout.trim()).toBe('0');
    expect(await answer(full)).toBeLessThan(ANSWER_LIMIT_MS);
    expect((await full.run('echo still; pwd')).stdout).toBe('still\n/home/user\n');
  });

  it('with no inode left', async () => {
    // The fewer inodes, the sooner they are gone.
    await using full = await world.create({ size: { diskMib: 2048 } });
    expect((await full.run(['python3', '-c', TAKE_INODES], { user: 'root' })).stdout).toBe('28\n');
    expect(await answer(full)).toBeLessThan(ANSWER_LIMIT_MS);
    expect((await full.run('echo still')).stdout).toBe('still\n');
  }, 600_000);
});

const AT_WORK = `
for i in 1 2 3; do
  while :; do python3 -c "import json, http.server, asyncio"; node -e 1; git --version; done > /dev/null &
done
wait`;

/** All space there is: most of it at once, the rest as it comes. */
const FILL = `
fallocate -l $(($(df --output=avail --block-size=1 / | tail -1) * 99 / 100)) /filler
cat /dev/zero > /rest 2>/dev/null
df --output=avail / | tail -1`;

const TAKE_INODES = `
import os
os.mkdir("/inodes")
count = 0
try:
    while True:
        os.mknod(f"/inodes/{count}")
        count += 1
except OSError as error:
    print(error.errno)`;

/** How long the simplest command takes. */
async function answer(where = sandbox): Promise<number> {
  const before = performance.now();
  expect(await where.run(['/bin/true'])).toMatchObject({ exitCode: 0 });
  return performance.now() - before;
}

async function answersUntil(end: Promise<unknown>, where: Sandbox): Promise<number[]> {
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  end.then(over, over);
  const answers = [await answer(where)];
  while (!isOver) answers.push(await answer(where));
  return answers;
}

/** At least so many characters of stdout; the stream stays open. */
async function readUntil(events: AsyncGenerator<ExecEvent>, length: number): Promise<string> {
  let text = '';
  while (text.length < length) {
    const { value, done } = await events.next();
    if (done) throw new Error('the stream ended');
    if (value.type === 'stdout') text += Buffer.from(value.data).toString();
    if (value.type === 'lost') throw new Error('output was lost');
  }
  return text;
}

/** The rest of a stream; also when the caller's own signal ends it. */
async function collect(events: AsyncGenerator<ExecEvent>) {
  let text = '';
  let lostBytes = 0;
  let end: ExecEvent | undefined;
  try {
    for await (const event of events) {
      if (event.type === 'stdout') text += Buffer.from(event.data).toString();
      if (event.type === 'lost') lostBytes += event.sizeBytes;
      if (event.type === 'exited') end = event;
    }
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
  return { text, lostBytes, end };
}
