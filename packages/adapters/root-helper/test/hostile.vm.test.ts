/** A node that was taken over: what it can say to the helper, and what it can put where the helper looks. */
import { execFileSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { chmod, link, mkdir, readFile, rename, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { connectForFiles, socketPair } from '../src/index.ts';
import { BUILD, KIND, makeWorld, RUN, SIZE, type World } from './world.ts';

const STRANGER = 64_321;
const OTHER = 'lif_1123456789abcdef';

let world: World;
beforeAll(async () => {
  world = await makeWorld();
});
afterAll(() => world?.[Symbol.asyncDispose]());

/** All that the helper says to these bytes until it ends the connection, or has said so many lines. */
async function say(bytes: string | Buffer, lines = 1): Promise<string[]> {
  const socket = connect({ path: world.process.socketPath });
  socket.on('error', () => undefined);
  const said = heard(socket, lines);
  socket.write(bytes);
  return await said.finally(() => socket.destroy());
}

async function heard(socket: Socket, lines: number): Promise<string[]> {
  let text = '';
  const { promise, resolve } = Promise.withResolvers<void>();
  socket.setEncoding('utf8').on('data', (more: string) => {
    text += more;
    if (text.split('\n').length > lines) resolve();
  });
  socket.on('close', () => resolve());
  await promise;
  return text.split('\n').slice(0, -1);
}

const WORDS: readonly string[] = [
  '',
  'hello now',
  'Hello',
  'mount /dev/sda1 /mnt',
  'openVault',
  'openVault default',
  'openVault .. plain',
  'openVault ../default plain',
  'openVault /var/lib/space plain',
  'openVault default default',
  'openVault default keyed',
  'openVault  default',
  'createVault .. 512 plain',
  'createVault a/b 512 plain',
  'createVault one 0 plain',
  'createVault one 99999999999999999 plain',
  'createVault one 512 keyed',
  'keepToken .. keyed',
  'keepToken default plain',
  'keepToken default keyed',
  'growVault .. 512',
  'removeVault ..',
  'removeVault default',
  'startVmm',
  `startVmm ${RUN}`,
  `startVmm ${RUN} ${BUILD}`,
  `startVmm ${RUN} ${BUILD} restore`,
  `startVmm ${RUN} ${BUILD} restore tcg`,
  `startVmm ${RUN} ${BUILD} boot tcg`,
  `startVmm ${RUN} ${BUILD} restore /bin/sh`,
  `startVmm ${RUN} ${BUILD.replace('0', '1')} restore tcg`,
  `startVmm ${RUN} ../../../../../../../../bin/sh restore tcg`,
  `startVmm ../../etc ${BUILD} restore tcg`,
  `startVmm spare-1-2-../x ${BUILD} restore tcg`,
  `equipVmm ${RUN} ${RUN} own 8 1`,
  `equipVmm ${RUN} ../../etc own 8 1`,
  `equipVmm ${RUN} ${RUN} ../own 8 1`,
  `equipVmm ${RUN} ${RUN} own -8 1`,
  `equipVmm ${RUN} ${RUN} own 99999999999999999999 1`,
  `equipVmm ${RUN} ${RUN} own 8 0`,
  'endVmm 1',
  'endVmm -1',
  'endVmm ..',
  'endVmm snp_0123456789abcdef',
  'clearVmm .',
  'clearVmm /',
  `clearVmm ${RUN}/sockets`,
  `clearVmm ${RUN}\0`,
];

describe('what is said', () => {
  it('of a vault that is not there changes nothing: it is not opened, and is closed', async () => {
    const before = await world.remains();
    const answers = async (words: string) => JSON.parse((await say(`7 ${words}\n`))[0] ?? '{}') as unknown;
    expect(await answers('openVault other plain')).toMatchObject({ id: 7, error: { code: 'not_found' } });
    expect(await answers('closeVault own')).toEqual({ id: 7, ok: {} });
    expect(await world.remains()).toEqual(before);
  });

  it.each(WORDS)('"%s" is refused, and nothing is done', async (words) => {
    const before = await world.remains();
    const [answer = '{}'] = await say(`7 ${words}\n`);
    expect(JSON.parse(answer)).toMatchObject({ id: 7, error: { code: 'bad_request' } });
    expect(await world.remains()).toEqual(before);
  });

  it.each([
    ['no number', 'hello\n'],
    ['a number that is none', '-1 hello\n'],
    ['nothing', '\n'],
    ['bytes that are no text', Buffer.from([0xff, 0xfe, 0x0a])],
    ['a line without end', 'x'.repeat(100_000)],
  ])('%s ends the connection', async (_, bytes) => {
    expect(await say(bytes)).toEqual([]);
    expect(await say('1 hello\n')).toHaveLength(1);
  });

  it('half a line ends the connection after a while, and holds up nobody', async () => {
    const half = say('1 hel');
    expect(await say('1 hello\n')).toHaveLength(1);
    expect(await half).toEqual([]);
  }, 15_000);

  it('a flood is answered in turn, and in full', async () => {
    const numbers = Array.from({ length: 3_000 }, (_, index) => index);
    const answers = await say(numbers.map((id) => `${id} endVmm ${OTHER}\n`).join(''), numbers.length);
    expect(answers.map((answer) => JSON.parse(answer).id).sort((a, b) => a - b)).toEqual(numbers);
  });

  it('connections beyond a few are ended, and the others go on', async () => {
    const sockets = Array.from({ length: 40 }, () => connect({ path: world.process.socketPath }));
    for (const socket of sockets) socket.on('error', () => undefined).resume();
    await expect.poll(() => sockets.filter((socket) => socket.closed).length, { timeout: 5_000 }).toBeGreaterThan(30);
    expect(await world.helper.endVmm(OTHER)).toBeUndefined();
    for (const socket of sockets) socket.destroy();
    await expect.poll(() => say('1 hello\n'), { timeout: 5_000 }).toHaveLength(1);
  });

  it('another user is not let in, nor answered where the mode would let him in', async () => {
    const attempt = () =>
      execFileSync(
        process.execPath,
        [
          '--eval',
          `const socket = require('net').connect(${JSON.stringify(world.process.socketPath)});
           socket.write('1 hello\\n');
           socket.on('error', ({ code }) => console.log(code));
           socket.on('data', (bytes) => console.log(String(bytes)));
           socket.on('close', () => console.log('closed'));`,
        ],
        { uid: STRANGER, gid: STRANGER, encoding: 'utf8' },
      );
    expect(attempt()).toMatch(/^EACCES/);
    await chmod(join(world.process.socketPath, '..'), 0o755);
    expect(attempt()).toMatch(/^EACCES/);
    await chmod(world.process.socketPath, 0o666);
    expect(attempt()).not.toContain('{');
    await chmod(world.process.socketPath, 0o600);
    await chmod(join(world.process.socketPath, '..'), 0o750);
  });
});

describe('what is passed', () => {
  it('only a connection to that very VMM gets the files of a life', async () => {
    await world.makeLife();
    await world.start();
    await world.start(OTHER);
    const life = { lifeId: RUN, place: 'own', size: SIZE };
    const pair = socketPair();
    const other = world.connect(OTHER);
    const toHelper = connectForFiles(world.process.socketPath);
    const file = openSync('/dev/null', 'r');
    for (const fd of [pair.theirs, other.descriptor(), toHelper.descriptor(), file]) {
      await expect(world.helper.equipVmm(RUN, life, fd)).rejects.toThrow(/does not lead|unix socket|descriptor/);
    }
    await expect(world.helper.startVmm('lif_2123456789abcdef', KIND, file)).rejects.toThrow(/descriptor/);
    closeSync(pair.theirs);
    closeSync(file);
    for (const socket of [pair.ours, other.socket, toHelper.socket]) socket.destroy();
    // None was handed over on the way.
    expect((await stat(join(world.folder, 'own/lives', RUN, 'disk.img'))).uid).toBe(0);
    for (const run of [RUN, OTHER]) {
      await world.helper.endVmm(run);
      await world.helper.clearVmm(run);
    }
    expect(await world.remains()).toEqual([]);
    await rm(join(world.folder, 'own/lives', RUN), { recursive: true });
  });
});

/** Each plants something at the place of a life's disk; what would be given away is `secret`. */
const PLANTED: readonly (readonly [what: string, plant: (life: string, secret: string) => Promise<unknown>])[] = [
  ['a link', async (life, secret) => symlink(secret, join(life, 'disk.img'))],
  ['a hard link to a file of somebody else', async (life, secret) => link(secret, join(life, 'disk.img'))],
  ['a folder', async (life) => mkdir(join(life, 'disk.img'))],
  ['a pipe that nobody writes to', async (life) => execFileSync('mkfifo', [join(life, 'disk.img')])],
  ['a device', async (life) => execFileSync('mknod', [join(life, 'disk.img'), 'c', '1', '3'])],
  ['nothing', async () => undefined],
  [
    'a link in the way to it',
    async (life, secret) => {
      const elsewhere = join(life, '../../elsewhere');
      await mkdir(elsewhere, { recursive: true });
      await rm(join(elsewhere, 'disk.img'), { force: true });
      await link(secret, join(elsewhere, 'disk.img'));
      await rename(join(life, 'memory'), join(elsewhere, 'memory'));
      await rm(life, { recursive: true });
      await symlink(elsewhere, life);
    },
  ],
  [
    'another mount in the way to it',
    async (life) => {
      execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', life]);
      await writeFile(join(life, 'disk.img'), '');
      await writeFile(join(life, 'memory'), '');
      await truncate(join(life, 'memory'), SIZE.memoryMib * 1024 * 1024);
    },
  ],
];

describe('what is planted', () => {
  let secret: string;
  beforeAll(async () => {
    secret = join(world.folder, 'secret');
    await writeFile(secret, 'of the host', { mode: 0o600 });
    execFileSync('chown', ['7:7', secret]);
    await world.start();
  });
  afterAll(async () => {
    await world.helper.endVmm(RUN);
    await world.helper.clearVmm(RUN);
  });

  afterEach(async () => {
    const life = join(world.folder, 'own/lives', RUN);
    const mounts = await readFile('/proc/self/mountinfo', 'utf8');
    if (mounts.includes(` ${life} `)) execFileSync('umount', [life]);
    for (const path of [life, join(world.folder, 'own/elsewhere')]) await rm(path, { recursive: true, force: true });
  });

  it.each(PLANTED)('%s at the place of a disk is given to no VMM, and does not change hands', async (_, plant) => {
    const life = await world.makeLife();
    await rm(join(life, 'disk.img'));
    await plant(life, secret);
    const control = world.connect();
    const given = world.helper.equipVmm(RUN, { lifeId: RUN, place: 'own', size: SIZE }, control.descriptor());
    await expect(given).rejects.toThrow();
    control.socket.destroy();
    expect(await stat(secret)).toMatchObject({ uid: 7, gid: 7 });
    expect(await readFile(secret, 'utf8')).toBe('of the host');
  });
});
