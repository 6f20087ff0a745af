/** Each verb of the API, over the SDK, on real microVMs. */
import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type ExecEvent, Sandbox, SpaceError } from '@space/sdk';
import { processesNaming } from '@space/server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clientCases } from './client-cases.ts';
import { identityCases } from './identity-cases.ts';
import { lifeOf } from './look-inside.ts';
import { raceCases } from './race-cases.ts';
import { ask, placeWitness } from './witness.ts';
import { makeWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await makeWorld();
});
afterAll(() => world[Symbol.asyncDispose]());

describe('what a client relies on', () => clientCases(() => world));

describe('who a sandbox is', () => identityCases(() => world));

describe('two at once, on one sandbox', () => raceCases(() => world));

describe('create, get, list, delete', () => {
  it('a sandbox runs, is found by id and by name, and is gone after delete', async () => {
    const sandbox = await world.create({ name: 'one', metadata: { team: 'blue' }, env: { GREETING: 'hello' } });
    expect(sandbox.status).toBe('running');
    expect((await Sandbox.connect('one', world.connection)).id).toBe(sandbox.id);
    expect((await Sandbox.list(world.connection)).map(({ id }) => id)).toContain(sandbox.id);
    expect((await sandbox.run('echo $GREETING; hostname')).stdout).toBe(`hello\n${sandbox.id.replace('_', '-')}\n`);
    await sandbox.delete();
    await expect(Sandbox.connect(sandbox.id, world.connection)).rejects.toMatchObject({
      code: 'not_found',
      status: 404,
    });
    await sandbox.delete();
  });

  it('a size is what the guest sees', async () => {
    await using sandbox = await world.create({ size: { vcpus: 2, memoryMib: 256, diskMib: 4096 } });
    const { stdout } = await sandbox.run("nproc; free -m | awk '/Mem/{print $2}'; df -m --output=size / | tail -1");
    const [cpus = 0, memory = 0, disk = 0] = stdout.trim().split('\n').map(Number);
    expect(cpus).toBe(2);
    expect(memory).toBeGreaterThan(150);
    expect(memory).toBeLessThanOrEqual(256);
    expect(disk).toBeGreaterThan(3500);
    expect(disk).toBeLessThanOrEqual(4096);
    // What grew is whole: the kernel's thread for inode tables finds nothing to write, and ends.
    const search = async () => (await sandbox.run('pgrep ext4lazyinit')).exitCode;
    await expect.poll(search, { timeout: 20_000, interval: 500 }).toBe(1);
  });

  it.each([
    ['an unknown template', { template: 'nope' }, 'template_unknown'],
    ['an impossible size', { size: { memoryMib: 100 } }, 'size_impossible'],
    ['a name that is no name', { name: 'Not A Name' }, 'bad_request'],
    ['more memory than there is', { size: { memoryMib: 16_384, vcpus: 1 } }, 'insufficient_memory'],
  ] as const)('%s is refused by code, with a next step', async (_, options, code) => {
    const error = await world.create(options).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(SpaceError);
    expect(error).toMatchObject({ code });
    expect((error as SpaceError).nextStep.length).toBeGreaterThan(10);
  });
});

describe('the clock of a guest', () => {
  it('goes as fast as the host’s, within 500 ppm', async () => {
    // While a snapshot has the vCPUs stand still, so does the monotonic clock.
    await using sandbox = await world.create({ snapshots: { everyMs: 'off' } });
    // Buffered and flushed, so that a line is one write, and comes as one event.
    const program = 'import sys, time\nfor line in sys.stdin: print(time.monotonic_ns(), flush=True)';
    const { processId } = await sandbox.start(['python3', '-c', program], { stdin: true });
    const answers = sandbox.attach(processId);
    /** Of several readings the one with the shortest way there and back. */
    const read = async () => {
      const readings = [];
      for (let count = 0; count < 20; count++) {
        const askedMs = performance.now();
        await sandbox.writeInput(processId, '\n');
        const guestMs = Number(await nextOutput(answers)) / 1e6;
        const wayMs = performance.now() - askedMs;
        readings.push({ wayMs, guestMs, hostMs: askedMs + wayMs / 2 });
      }
      return readings.reduce((best, one) => (one.wayMs < best.wayMs ? one : best));
    };
    const first = await read();
    await setTimeout(30_000);
    const last = await read();
    const passedMs = last.hostMs - first.hostMs;
    // A reading may be off by half its way.
    const unsureMs = (first.wayMs + last.wayMs) / 2;
    expect(Math.abs(last.guestMs - first.guestMs - passedMs)).toBeLessThan(500e-6 * passedMs + unsureMs);
  });
});

async function nextOutput(events: AsyncGenerator<ExecEvent>): Promise<string> {
  for (;;) {
    const { value, done } = await events.next();
    if (done) throw new Error('the stream ended');
    if (value.type === 'stdout') return Buffer.from(value.data).toString();
  }
}

describe('exec', () => {
  it('keeps stdout and stderr apart, and the exit code true', async () => {
    await using sandbox = await world.create();
    const result = await sandbox.run('echo out; echo err >&2; exit 7');
    expect(result).toMatchObject({ exitCode: 7, stdout: 'out\n', stderr: 'err\n' });
    expect(await sandbox.run('kill -TERM $$')).toMatchObject({ exitCode: null, signal: 'SIGTERM' });
  });

  it('runs in the directory, environment and user that were asked for', async () => {
    await using sandbox = await world.create();
    expect((await sandbox.run('pwd; id -un')).stdout).toBe('/home/user\nuser\n');
    expect((await sandbox.run('pwd; id -un', { cwd: '/etc', user: 'root' })).stdout).toBe('/etc\nroot\n');
    expect((await sandbox.run(['printenv', 'A'], { env: { A: 'b c' } })).stdout).toBe('b c\n');
    expect((await sandbox.run('sudo id -u')).stdout).toBe('0\n');
    await expect(sandbox.run(['/no/such/program'])).rejects.toMatchObject({ code: 'command_not_started' });
  });

  it('loses no byte of a large output', async () => {
    await using sandbox = await world.create();
    const { stdoutBytes } = await sandbox.run('head -c 3000000 /dev/zero');
    expect(stdoutBytes.length).toBe(3_000_000);
  });

  it('returns when the command ends, and leaves its background children alone', async () => {
    await using sandbox = await world.create();
    await sandbox.run('(sleep 1; echo late > /tmp/late) &');
    const { stdout } = await sandbox.run('until [ -e /tmp/late ]; do sleep 0.1; done; cat /tmp/late', {
      timeoutMs: 30_000,
    });
    expect(stdout).toBe('late\n');
  });

  it('time passes in the guest as it does outside, also while it computes', async () => {
    await using sandbox = await world.create();
    const read = async () => {
      const before = Date.now();
      const { stdout } = await sandbox.run('date +%s.%N');
      return { guest: Number(stdout) * 1000, before, after: Date.now() };
    };
    const first = await read();
    await sandbox.run('timeout 4 sh -c "while :; do :; done"');
    const second = await read();
    const passed = second.guest - first.guest;
    expect(passed).toBeGreaterThan(second.before - first.after - 50);
    expect(passed).toBeLessThan(second.after - first.before + 50);
  });

  it('a timeout kills the whole tree', async () => {
    await using sandbox = await world.create();
    const result = await sandbox.run('sleep 1000 & sleep 1000', { timeoutMs: 500 });
    expect(result).toMatchObject({ exitCode: null, timedOut: true });
    expect((await sandbox.run('pgrep -c sleep || true')).stdout.trim()).toBe('0');
  });
});

describe('the console', () => {
  it('tells the last that the kernel, or root, wrote to it', async () => {
    await using sandbox = await world.create();
    await sandbox.run('echo "<1>to the console" > /dev/kmsg', { user: 'root' });
    await expect.poll(() => sandbox.console(), { timeout: 10_000 }).toContain('to the console');
    await sandbox.pause();
    expect(await sandbox.console()).toBeNull();
    expect((await sandbox.refresh()).status).toBe('paused');
  });
});

describe('files', () => {
  it('writes, reads, stats and lists, byte for byte', async () => {
    await using sandbox = await world.create();
    const bytes = Uint8Array.from({ length: 300_000 }, (_, index) => (index * 7) & 255);
    await sandbox.files.write('deep/er/data.bin', bytes);
    expect(Buffer.compare(await sandbox.files.readBytes('deep/er/data.bin'), bytes)).toBe(0);
    expect(await sandbox.files.stat('deep/er/data.bin')).toMatchObject({ type: 'file', sizeBytes: 300_000, uid: 1000 });
    expect((await sandbox.files.list('deep')).map(({ name }) => name)).toEqual(['er']);
    await expect(sandbox.files.read('nothing')).rejects.toMatchObject({ code: 'file_not_found' });
    await expect(sandbox.files.read('/etc/shadow')).rejects.toMatchObject({ code: 'file_denied' });
  });
});

describe('snapshot, fork, rewind, pause, resume', () => {
  it('a fork has the memory of its source, a name of its own, and shares no writable file with it', async () => {
    await using source = await world.create();
    const before = await placeWitness(source);
    const children = await source.fork(3);
    const seen = await Promise.all(children.map(ask));
    for (const child of seen) expect(child).toMatchObject({ word: before.word, pid: before.pid, held: before.word });
    const all = [before, ...seen];
    for (const part of ['host', 'machine', 'random'] as const)
      expect(new Set(all.map((one) => one[part])).size).toBe(4);
    const files = await Promise.all([source, ...children].map(writableFiles));
    expect(new Set(files.flat()).size).toBe(files.flat().length);
    await source.delete();
    expect((await ask(children[0] as Sandbox)).word).toBe(before.word);
    for (const child of children) await child.delete();
  });

  it('a directory in the place of the machine id is moved aside, and neither pause nor fork fails', async () => {
    await using sandbox = await world.create();
    const SPOIL = 'rm -f /etc/machine-id && mkdir /etc/machine-id && echo mine > /etc/machine-id/kept';
    const LOOK = 'cat /etc/machine-id /etc/machine-id.aside-*/kept';
    const { stdout: own } = await sandbox.run('cat /etc/machine-id');
    expect((await sandbox.run(SPOIL, { user: 'root' })).exitCode).toBe(0);
    await sandbox.pause();
    expect((await sandbox.run(LOOK)).stdout).toBe(`${own}mine\n`);

    expect((await sandbox.run(SPOIL, { user: 'root' })).exitCode).toBe(0);
    const [child] = await sandbox.fork(1);
    await using copy = child as Sandbox;
    const { stdout } = await copy.run(LOOK);
    expect(stdout).toMatch(/^[0-9a-f]{32}\nmine\nmine\n$/);
    expect(stdout).not.toContain(own.trim());
  });

  it('a root file system that is read-only fails neither pause nor fork, and the id is the copy’s own', async () => {
    await using sandbox = await world.create();
    const { stdout: own } = await sandbox.run('cat /etc/machine-id');
    // By the key of the kernel: remounted, it would be busy with what is open for writing.
    const READ_ONLY = 'sync; echo u > /proc/sysrq-trigger; until ! touch /probe 2>/dev/null; do sleep 0.1; done';
    expect((await sandbox.run(READ_ONLY, { user: 'root' })).exitCode).toBe(0);
    await sandbox.pause();
    expect((await sandbox.run('cat /etc/machine-id')).stdout).toBe(own);
    const [child] = await sandbox.fork(1);
    await using copy = child as Sandbox;
    const { stdout } = await copy.run('cat /etc/machine-id');
    expect(stdout).toMatch(/^[0-9a-f]{32}\n$/);
    expect(stdout).not.toBe(own);
  });

  it('hooks run after a resume and a fork, as who it is then; one that hangs or fails holds nothing up', async () => {
    await using sandbox = await world.create();
    const hook = (name: string, body: string) =>
      `printf '#!/bin/sh\\n%s\\n' '${body}' > /etc/space/hooks.d/${name}; chmod +x /etc/space/hooks.d/${name}`;
    const INSTALL = [
      'mkdir -p /etc/space/hooks.d',
      hook('10-fails', 'exit 3'),
      hook('20-tells', 'echo "$SPACE_SANDBOX $SPACE_GENERATION $(hostname) $(id -u)" >> /told'),
      hook('30-hangs', 'sleep 1000'),
    ].join('; ');
    expect((await sandbox.run(INSTALL, { user: 'root' })).exitCode).toBe(0);
    const told = async (of: Sandbox) => (await of.run('cat /told')).stdout;
    const lineOf = ({ id, fields }: Sandbox) => `${id} ${fields.generation} ${id.replace('_', '-')} 0\n`;
    await sandbox.snapshot();
    expect((await sandbox.run('test ! -e /told')).exitCode).toBe(0);
    await sandbox.pause();
    expect((await sandbox.run('echo woken')).stdout).toBe('woken\n');
    await expect.poll(() => told(sandbox), { timeout: 20_000, interval: 200 }).toBe(lineOf(sandbox));
    // Ten seconds, and all that it has started: then those of the next life come, in the copy too.
    const hanging = async (of: Sandbox) => (await of.run('pgrep -c -x sleep')).stdout;
    await expect.poll(() => hanging(sandbox), { timeout: 30_000, interval: 500 }).toBe('0\n');
    const [child] = await sandbox.fork(1);
    await using copy = child as Sandbox;
    await expect.poll(() => told(copy), { timeout: 20_000, interval: 200 }).toBe(`${lineOf(sandbox)}${lineOf(copy)}`);
  });

  it('commands start and end while snapshots are taken', async () => {
    await using sandbox = await world.create();
    let done = false;
    const snapshots = (async () => {
      for (let taken = 0; taken < 8; taken++) await sandbox.snapshot();
      done = true;
    })();
    const commands = [1, 2].map(async () => {
      while (!done) expect((await sandbox.run(['/bin/true'])).exitCode).toBe(0);
    });
    await Promise.all([snapshots, ...commands]);
  });

  it('a rewind brings memory and files back, and can itself be undone', async () => {
    await using sandbox = await world.create();
    const before = await placeWitness(sandbox);
    await sandbox.files.write('f', 'one');
    const point = await sandbox.snapshot({ name: 'point-one' });
    await sandbox.files.write('f', 'two');
    const kept = await sandbox.rewind(point);
    expect(await sandbox.files.read('f')).toBe('one');
    expect((await ask(sandbox)).word).toBe(before.word);
    expect(sandbox.fields.generation).toBe(2);
    if (kept === null) throw new Error('the present was not kept');
    await sandbox.rewind(kept);
    expect(await sandbox.files.read('f')).toBe('two');
    expect(sandbox.fields.generation).toBe(3);
  });

  it('a pause leaves no process, a use wakes it, and its memory is intact', async () => {
    await using sandbox = await world.create();
    const before = await placeWitness(sandbox);
    const life = await lifeOf(world, sandbox);
    expect(await processesNaming(`/${life}/memory`)).toHaveLength(1);
    await sandbox.pause();
    expect(await processesNaming(`/${life}/`)).toEqual([]);
    await sandbox.refresh();
    expect(sandbox.status).toBe('paused');
    const after = await ask(sandbox);
    expect(after).toMatchObject({ word: before.word, pid: before.pid, held: before.word, machine: before.machine });
    expect(after.count).toBeGreaterThan(before.count);
    await sandbox.pause();
    await sandbox.resume();
    expect(sandbox.status).toBe('running');
  });

  it('a named snapshot outlives its sandbox, and sandboxes are created from it', async () => {
    const source = await world.create();
    const before = await placeWitness(source);
    await source.snapshot({ name: 'kept' });
    await source.delete();
    await using copy = await world.create({ snapshot: 'kept' });
    expect((await ask(copy)).word).toBe(before.word);
  });

  it('a VM that is killed is reported as crashed, and goes on from its last point', async () => {
    await using sandbox = await world.create();
    const before = await placeWitness(sandbox);
    await sandbox.snapshot();
    const [found] = await processesNaming(`/${await lifeOf(world, sandbox)}/memory`);
    process.kill(Number(found?.split(' ')[1]), 'SIGKILL');
    await expect.poll(async () => (await sandbox.refresh()).status, { timeout: 10_000 }).toBe('crashed');
    await expect(sandbox.run('true')).rejects.toMatchObject({ code: 'vm_lost' });
    await sandbox.resume();
    expect((await ask(sandbox)).word).toBe(before.word);
    expect(sandbox.fields.generation).toBe(2);
  });
});

describe('programs', () => {
  it.each([
    ['first', '42 Find the bug.\n'],
    [
      'agent-loop',
      'turn 1: exit code 0\nturn 2: exit code 0\nturn 3: exit code 1\nturn 3 is taken back\nthe bug is in parse()\nfixed it\n',
    ],
    ['best-of-n', 'way 2 wins: a much longer and better answer\n'],
  ])('the example %s runs, and prints what its document says', async (name, output) => {
    const { baseUrl, apiKey } = world.connection;
    const env = { ...process.env, SPACE_URL: baseUrl, SPACE_API_KEY: apiKey };
    const example = join(import.meta.dirname, `../../examples/${name}.ts`);
    const { stdout } = await promisify(execFile)(process.execPath, [example], { env });
    expect(stdout).toBe(output);
  });
});

describe('a sandbox whose processes cannot be made to stand still', () => {
  it('is rewound by giving up the present', async () => {
    await using sandbox = await world.create({ snapshots: { everyMs: 'off' } });
    const point = await sandbox.snapshot();
    await sandbox.run('echo later > later');
    expect(await sandbox.rewind(point, { keepPresent: false })).toBeNull();
    expect((await sandbox.run('ls')).stdout).toBe('');
    expect((await sandbox.timeline()).snapshots.map(({ id }) => id)).toEqual([point.id]);
  });
});

/** Device and inode of the disk and the memory that the sandbox's VM writes. */
async function writableFiles(sandbox: Sandbox): Promise<string[]> {
  const folder = `${world.config.dataDir}/vaults/default/mnt/lives/${await lifeOf(world, sandbox)}`;
  return Promise.all(
    ['disk.img', 'memory'].map(async (file) => {
      const { dev, ino } = await stat(`${folder}/${file}`);
      return `${dev}:${ino}`;
    }),
  );
}
