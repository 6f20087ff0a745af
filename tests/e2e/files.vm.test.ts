/** Files of a sandbox on a real microVM, through the SDK and the HTTP API. */
import { createHash, randomBytes } from 'node:crypto';
import { type Sandbox, SpaceError, type WatchEvent } from '@space/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

const MIB = 1024 * 1024;

let world: World;
let sandbox: Sandbox;
beforeAll(async () => {
  world = await makeWorld();
  sandbox = await world.create({ size: { diskMib: 4096 } });
});
afterAll(() => world[Symbol.asyncDispose]());

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const thrown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(thrown instanceof SpaceError)) throw new Error(`Not refused: ${thrown}`, { cause: thrown });
  return thrown.code;
}

async function sh(command: string, user?: string): Promise<string> {
  const { stdout, stderr, exitCode } = await sandbox.run(command, user === undefined ? {} : { user });
  if (exitCode !== 0) throw new Error(`${command}: ${stderr}`);
  return stdout;
}

describe('names', () => {
  it('of any bytes are written, listed, read, moved and removed, and are what the guest sees', async () => {
    const { files } = sandbox;
    const odd = Uint8Array.from(Buffer.from('odd/\xff\xfe', 'latin1'));
    for (const path of ['odd/-rf', 'odd/ ', 'odd/a\nb', odd]) await files.write(path, 'x', { ifAbsent: true });
    expect(await sh("cd odd && printf '%s|' *")).toContain('a\nb|');
    const entries = await files.list('odd');
    expect(entries.map(({ name }) => name)).toEqual([' ', '-rf', 'a\nb', odd.subarray(4)]);
    for (const { path } of entries) expect(await files.read(path)).toBe('x');
    await files.move(odd, 'odd/plain');
    expect(await sh('cat odd/plain')).toBe('x');
    await files.move('odd/plain', odd);
    for (const { path } of entries) expect(await files.remove(path)).toBe(1);
    expect(await sh('ls -A odd')).toBe('');
  });
});

describe('changes', () => {
  it('are made with the authority of the user, and the kernel decides', async () => {
    const { files } = sandbox;
    expect(await files.makeDirectory('made/deep', { parents: true, mode: 0o1770 })).toMatchObject({ uid: 1000 });
    expect(await sh('stat -c %a made/deep')).toBe('1770\n');
    await files.write('made/f', 'content', { mode: 0 });
    expect(await sh('stat -c "%a %U" made/f')).toBe('0 user\n');
    expect(await files.chmod('made/f', 0o4755)).toMatchObject({ mode: '4755' });
    expect(await codeOf(files.chown('made/f', { owner: 'root' }))).toBe('file_denied');
    expect(await files.chown('/home/user/made/f', { owner: 'root', group: 'root' }, { user: 'root' })).toMatchObject({
      uid: 0,
      mode: '0755',
    });
    expect(await codeOf(files.chmod('made/f', 0o777))).toBe('file_denied');
    expect(await codeOf(files.makeDirectory('/etc/mine'))).toBe('file_denied');
    expect(await codeOf(files.remove('/etc/hostname'))).toBe('file_denied');
    expect(await codeOf(files.move('/etc/hostname', 'mine'))).toBe('file_denied');
    expect(await codeOf(files.remove('made'))).toBe('directory_not_empty');
    await files.move('made', 'moved');
    expect(await sh('cat moved/f')).toBe('content');
    await sh('mkdir -p /dev/shm/other');
    expect(await codeOf(files.move('moved', '/dev/shm/moved'))).toBe('file_other_device');
    expect(await files.remove('moved', { recursive: true })).toBe(3);
    expect(await codeOf(files.write('/proc/version', 'x', { user: 'root' }))).not.toBe('internal');
  });

  it('have extended attributes: those of the user as the user, others as root', async () => {
    const { files } = sandbox;
    await files.write('attributes', '');
    await files.xattrs.set('attributes', 'user.note', 'text');
    expect(await codeOf(files.xattrs.set('attributes', 'trusted.note', 'text'))).toBe('file_denied');
    await files.xattrs.set('/home/user/attributes', 'trusted.note', 'text', { user: 'root' });
    expect(await files.xattrs.list('attributes')).toEqual(['user.note']);
    expect(await files.xattrs.list('/home/user/attributes', { user: 'root' })).toEqual(['trusted.note', 'user.note']);
    expect(Buffer.from(await files.xattrs.get('attributes', 'user.note')).toString()).toBe('text');
    await files.xattrs.remove('attributes', 'user.note');
    expect(await codeOf(files.xattrs.get('attributes', 'user.note'))).toBe('attribute_not_found');
  });
});

describe('a hostile guest', () => {
  it('leads nobody anywhere by links, and blocks nobody by special files', async () => {
    const { files } = sandbox;
    await sh('mkdir trap && cd trap && mkfifo fifo && ln -s /etc/shadow secret && ln -s / root && ln -s loop loop');
    expect(await codeOf(files.read('trap/secret'))).toBe('file_denied');
    expect(await codeOf(files.read('trap/fifo'))).toBe('file_wrong_type');
    expect(await codeOf(files.write('trap/fifo', 'x'))).toBe('file_wrong_type');
    expect(await codeOf(files.read('trap/loop'))).toBe('file_symlink_loop');
    // A link is followed inside of the guest: what the host has by that name is nobody's business.
    expect(await files.read('trap/root/etc/hostname')).toBe(await sh('cat /etc/hostname'));
    expect(await files.list('trap', { depth: 16 })).toHaveLength(4);
    expect(await files.remove('trap', { recursive: true })).toBe(5);
    expect((await files.stat('/etc/shadow')).type).toBe('file');
  });

  it('gets no more done while links and directories change places under a removal', async () => {
    const { files } = sandbox;
    await sh('mkdir -p victim && touch victim/kept && mkdir -p race/a race/b');
    const swap = 'cd race; while [ -d ../race ]; do mkdir -p a; touch a/f; mv a x; ln -s ../victim a; rm -rf a x; done';
    const swapping = sandbox.run(swap, { timeoutMs: 4_000 });
    for (let round = 0; round < 20; round += 1)
      await files.remove('race/a', { recursive: true }).catch(() => undefined);
    await swapping;
    expect(await sh('ls victim')).toBe('kept\n');
  });
});

describe('a full disk', () => {
  it.each([
    ['no space', 'size=1m'],
    ['no inodes', 'size=8m,nr_inodes=4'],
  ])('with %s is guest_full; what was there stays, and nothing is left', async (_, options) => {
    const { files } = sandbox;
    await sh(`mkdir -p /home/user/full && mount -t tmpfs -o ${options},mode=777 none /home/user/full`, 'root');
    try {
      await files.write('full/kept', 'before');
      const attempts = Array.from({ length: 4 }, (_, index) => `full/${index}`);
      const codes = new Set<string>();
      for (const path of attempts) {
        await files.write(path, new Uint8Array(500_000)).catch((thrown: SpaceError) => codes.add(thrown.code));
      }
      await files.write('full/kept', new Uint8Array(2_000_000)).catch((thrown: SpaceError) => codes.add(thrown.code));
      expect([...codes]).toEqual(['guest_full']);
      expect(await files.read('full/kept')).toBe('before');
      expect((await files.list('full')).filter(({ name }) => String(name).startsWith('.'))).toEqual([]);
    } finally {
      await sh('umount /home/user/full', 'root');
    }
  });

  it('of its own is guest_full too', async () => {
    const { files } = sandbox;
    await files.write('precious', 'before');
    // It takes all that there is before it fails.
    await sh('fallocate -l 100G filler || true');
    expect(await codeOf(files.write('precious', new Uint8Array(20 * MIB)))).toBe('guest_full');
    expect(await files.read('precious')).toBe('before');
    await files.remove('filler');
    await files.write('precious', 'after');
  });
});

describe('watches', () => {
  it('tell of what commands do, in directories that are made later too', async () => {
    const { files } = sandbox;
    await files.makeDirectory('watched');
    const seen: string[] = [];
    for await (const event of files.watch('watched', { recursive: true })) {
      seen.push(textOf(event));
      if (event.type === 'ready')
        await sh('cd watched && mkdir -p a/b && sleep 0.3 && echo x > a/b/f && mv a/b/f g && rm g');
      if (event.type === 'removed') break;
    }
    expect(seen[0]).toBe('ready');
    for (const wanted of [
      'created a',
      'created a/b',
      'created a/b/f',
      'modified a/b/f',
      'moved a/b/f > g',
      'removed g',
    ]) {
      expect(seen).toContain(wanted);
    }
    expect(await codeOf(files.watch('/root').next())).toBe('file_denied');
  });

  it('say so when there was more than the kernel holds ready, and go on', async () => {
    const { files } = sandbox;
    // The agent stands still meanwhile: else it is quicker than any program beside it.
    const BURST = `cd /sys/fs/cgroup/agent
      echo 1 > cgroup.freeze; until grep -q "frozen 1" cgroup.events; do :; done
      touch /home/user/burst/1 /home/user/burst/2 /home/user/burst/3 /home/user/burst/4 /home/user/burst/5
      echo 0 > cgroup.freeze`;
    await files.makeDirectory('burst');
    const held = await sh('cat /proc/sys/fs/inotify/max_queued_events');
    await sh('echo 4 > /proc/sys/fs/inotify/max_queued_events', 'root');
    try {
      const seen: string[] = [];
      for await (const event of files.watch('burst')) {
        seen.push(textOf(event));
        if (event.type === 'ready') await sh(BURST, 'root');
        if (event.type === 'overflow') await sh('mkdir -p burst/after');
        if (seen.at(-1) === 'created after') break;
      }
      expect(seen).toContain('overflow');
    } finally {
      await sh(`echo ${held.trim()} > /proc/sys/fs/inotify/max_queued_events`, 'root');
    }
  });

  it('end with a typed error when the life ends, and a new one wakes the sandbox', async () => {
    const { files } = sandbox;
    const watching = files.watch('watched');
    expect(await watching.next()).toMatchObject({ value: { type: 'ready' } });
    const ending = codeOf(watching.next());
    await sandbox.pause();
    expect(await ending).toBe('link_lost');
    const again = files.watch('watched');
    expect(await again.next()).toMatchObject({ value: { type: 'ready' } });
    await again.return(undefined);
  });
});

describe('parts and sizes', () => {
  it('ranges are HTTP ranges, and HEAD tells the size', async () => {
    await sandbox.files.write('range', '0123456789');
    const url = `${world.connection.baseUrl}/v1/sandboxes/${sandbox.id}/files?path=range`;
    const headers = { authorization: `Bearer ${world.connection.apiKey}` };
    const part = await fetch(url, { headers: { ...headers, range: 'bytes=3-5' } });
    expect([part.status, part.headers.get('content-range'), await part.text()]).toEqual([206, 'bytes 3-5/10', '345']);
    const tail = await fetch(url, { headers: { ...headers, range: 'bytes=-2' } });
    expect([tail.status, await tail.text()]).toEqual([206, '89']);
    const none = await fetch(url, { headers: { ...headers, range: 'bytes=10-' } });
    expect([none.status, none.headers.get('content-range')]).toEqual([416, 'bytes */10']);
    const head = await fetch(url, { method: 'HEAD', headers });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, '10']);
  });

  it('an empty file is a file', async () => {
    await sandbox.files.write('empty', '');
    expect((await sandbox.files.readBytes('empty')).length).toBe(0);
  });

  it('300 MB go both ways, byte for byte, in flat memory on the host and in the guest', () => carries(300));

  it.runIf(process.env['SPACE_FULL'] === '1')('5 GB do too', () => carries(5 * 1024), 3_600_000);
});

/** Writes and reads so many MiB, and looks at the memory of this process (client, daemon and all) and of the agent. */
async function carries(sizeMib: number): Promise<void> {
  const own = sizeMib < 1000 ? sandbox : await world.create({ size: { diskMib: 8192 } });
  const block = randomBytes(MIB);
  const before = process.memoryUsage().rss;
  let [peak, agentKib] = [before, 0];
  async function* content() {
    for (let index = 0; index < sizeMib; index += 1) {
      block.writeUInt32BE(index);
      peak = Math.max(peak, process.memoryUsage().rss);
      if (index === sizeMib >> 1) agentKib = await agentMemoryKib(own);
      yield Uint8Array.from(block);
    }
  }
  const beganAt = performance.now();
  const written = await own.files.write('large', content());
  const writtenAt = performance.now();
  const hash = createHash('sha256');
  for await (const chunk of await own.files.readStream('large')) {
    hash.update(chunk);
    peak = Math.max(peak, process.memoryUsage().rss);
  }
  const speed = (fromMs: number, toMs: number) => `${Math.round((sizeMib / (toMs - fromMs)) * 1000)} MiB/s`;
  const [up, down] = [speed(beganAt, writtenAt), speed(writtenAt, performance.now())];
  expect(written.sizeBytes).toBe(sizeMib * MIB);
  expect(hash.digest('hex')).toBe(written.sha256);
  agentKib = Math.max(agentKib, await agentMemoryKib(own));
  console.log(
    `${sizeMib} MiB: up ${up}, down ${down}, host +${Math.round((peak - before) / MIB)} MiB, agent ${Math.round(agentKib / 1024)} MiB`,
  );
  expect(peak - before).toBeLessThan(256 * MIB);
  expect(agentKib).toBeLessThan(24 * 1024);
  await own.files.remove('large');
  if (own !== sandbox) await own.delete();
}

async function agentMemoryKib(of: Sandbox): Promise<number> {
  const { stdout } = await of.run("awk '/VmRSS/{print $2}' /proc/1/status", { user: 'root' });
  return Number(stdout);
}

function textOf(event: WatchEvent): string {
  if (event.type === 'ready' || event.type === 'overflow') return event.type;
  if (event.type === 'moved') return `moved ${event.from} > ${event.to}`;
  return `${event.type} ${event.path}`;
}
