/** Opening takes over what a dead daemon left, and nothing that is anybody else's. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { AppError } from '@space/core';
import { confined } from '@space/guest-image';
import { bootLife, readLife, takePoint, writeLife } from '@space/testkit/vault-suite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PAGE_BYTES, writeOut } from '../src/kernel.ts';
import { FOLDERS, VAULT_FILE, VAULT_FORMAT } from '../src/layout.ts';
import { openVault } from '../src/open-vault.ts';
import { endHolders, startHolder } from './child.ts';
import {
  attachLoop,
  DEFAULT_BYTES,
  expectNothingLeft,
  loopsIn,
  makeFolder,
  mounts,
  type TestVault,
  takeDown,
  vaultIn,
} from './world.ts';

/** One partition from sector 2048 on. */
const MASTER_BOOT_RECORD = Buffer.alloc(512);
MASTER_BOOT_RECORD.set([0x80, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0], 446);
MASTER_BOOT_RECORD.set([0x55, 0xaa], 510);

let options: TestVault;
beforeEach(async () => {
  options = await makeFolder();
});
afterEach(async () => {
  await endHolders();
  await takeDown(options.folder);
});

async function failureOf(call: Promise<unknown>): Promise<AppError> {
  return await call.then(
    () => expect.unreachable('the call succeeded'),
    (thrown: AppError) => thrown,
  );
}

/** Of the trees of a file system that is mounted. */
async function nodeBytesOf(uuid: string): Promise<number> {
  return Number(await readFile(`/sys/fs/btrfs/${uuid}/nodesize`, 'utf8'));
}

describe('opening', () => {
  it('makes a vault once and finds it again', async () => {
    const first = await openVault(options);
    const lifeId = await bootLife(first);
    await writeLife(first, lifeId, 'disk', 'kept');
    await first.close();
    await expectNothingLeft(options.folder);
    const second = await openVault(options);
    expect(await readLife(second, lifeId, 'disk', 4)).toBe('kept');
    await second.close();
    await second.close();
  });

  it('is closed for good while an image is built that was begun before', async () => {
    const vault = await openVault(options);
    const [program = '', ...args] = confined(['sh', '-c', 'echo begun; exec sleep 1000']);
    const build = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      expect(String(await once(build.stdout, 'data'))).toBe('begun\n');
      await vault.close();
      await expectNothingLeft(options.folder);
    } finally {
      build.kill('SIGKILL');
      await once(build, 'exit');
    }
  });

  it('has little read ahead of the pages that are touched', async () => {
    const vault = await openVault(options);
    const { id } = JSON.parse(await readFile(join(options.folder, 'mnt', 'vault.json'), 'utf8'));
    expect((await readFile(`/sys/fs/btrfs/${id}/bdi/read_ahead_kb`, 'utf8')).trim()).toBe('32');
    await vault.close();
  });

  it('has what is written to its loop device sorted and joined', async () => {
    const vault = await openVault(options);
    const [loop = ''] = (await loopsIn(options.folder)).map((path) => basename(path));
    expect(await readFile(`/sys/block/${loop}/queue/scheduler`, 'utf8')).toContain('[mq-deadline]');
    const requests = async () => Number((await readFile(`/sys/block/${loop}/stat`, 'utf8')).trim().split(/ +/)[4]);
    {
      // Every other page of a file: pieces of one page each, which lie side by side on the disk.
      await using file = await open(join(options.folder, 'mnt', 'pages'), 'w');
      const [pages, content, before] = [2_000, Buffer.alloc(PAGE_BYTES, 1), await requests()];
      for (let page = 0; page < pages; page++) await file.write(content, 0, PAGE_BYTES, 2 * page * PAGE_BYTES);
      await writeOut(file.fd, 'pages');
      expect((await requests()) - before).toBeLessThan(pages / 2);
    }
    await vault.close();
  });

  it('refuses a vault that is open already, in this process or another', async () => {
    const holder = await startHolder(options.folder, 'hold');
    const refused = await failureOf(openVault(options));
    expect(refused).toMatchObject({ code: 'vault_busy', message: expect.stringContaining('in use') });
    await holder.kill();
    const vault = await openVault(options);
    expect((await failureOf(openVault(options))).code).toBe('vault_busy');
    await vault.close();
  });

  it('takes over the mount of a killed daemon, with its lives, and drops what it had staged', async () => {
    const holder = await startHolder(options.folder, 'hold');
    await holder.kill();
    const before = (await mounts()).filter(({ target }) => target.startsWith(options.folder));
    expect(before).toHaveLength(1);
    const vault = await openVault(options);
    expect((await mounts()).filter(({ target }) => target.startsWith(options.folder))).toEqual(before);
    const [lifeId, ...others] = await vault.lives();
    expect(others).toEqual([]);
    expect(await vault.points()).toEqual([]);
    expect(await readdir(join(options.folder, 'mnt/points'))).toEqual([]);
    if (lifeId !== undefined) await takePoint(vault, lifeId);
    expect(await vault.points()).toHaveLength(1);
    await vault.close();
    await expectNothingLeft(options.folder);
  });

  it('reuses the loop device of a daemon that was killed before it could mount', async () => {
    await (await openVault(options)).close();
    attachLoop(join(options.folder, 'vault.btrfs'));
    const vault = await openVault(options);
    await vault.close();
    await expectNothingLeft(options.folder);
  });

  it('starts again when the first open was killed while it made the file', async () => {
    await writeFile(join(options.folder, 'vault.btrfs.new'), 'half of a file system');
    const vault = await openVault(options);
    await bootLife(vault);
    await vault.close();
    expect(await readdir(options.folder)).toEqual(['lock', 'mnt', 'vault.btrfs']);
  });

  it('grows when its size is raised', async () => {
    const first = await openVault(options);
    await bootLife(first);
    const { totalBytes } = await first.space();
    await first.close();
    const second = await openVault(await vaultIn(options.folder, { kind: 'loop', sizeBytes: 2 * DEFAULT_BYTES }));
    expect((await second.space()).totalBytes).toBe(2 * totalBytes);
    expect(await second.lives()).toHaveLength(1);
    await second.close();
  });
});

describe('opening what is not ours', () => {
  it('refuses a file that holds no vault, and leaves it as it was', async () => {
    await writeFile(join(options.folder, 'vault.btrfs'), 'somebody’s only copy');
    await truncate(join(options.folder, 'vault.btrfs'), DEFAULT_BYTES);
    expect((await failureOf(openVault(options))).code).toBe('unavailable');
    await using file = await open(join(options.folder, 'vault.btrfs'));
    expect((await file.read(Buffer.alloc(8), 0, 8, 0)).buffer.toString()).toBe('somebody');
  });

  it('refuses the vault of another name', async () => {
    await (await openVault(options)).close();
    const refused = await failureOf(
      openVault(await vaultIn(options.folder, { kind: 'loop', sizeBytes: DEFAULT_BYTES }, { name: 'other' })),
    );
    expect(refused.message).toContain('space:default');
    await expectNothingLeft(options.folder);
  });

  it('refuses a mount point on which something else is mounted, and does not unmount it', async () => {
    await (await openVault(options)).close();
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', join(options.folder, 'mnt')]);
    expect((await failureOf(openVault(options))).message).toContain('not this vault');
    expect((await mounts()).filter(({ target }) => target === join(options.folder, 'mnt'))).toHaveLength(1);
  });
});

describe('a device as backing', () => {
  let device: string;
  beforeEach(async () => {
    const file = join(options.folder, 'device.img');
    await writeFile(file, '');
    await truncate(file, DEFAULT_BYTES);
    device = attachLoop(file);
    options = await vaultIn(options.folder, { kind: 'device', path: device });
  });

  it('is made into a vault when blank, and found again', async () => {
    const first = await openVault(options);
    const lifeId = await bootLife(first);
    await first.close();
    const second = await openVault(options);
    expect(await second.lives()).toEqual([lifeId]);
    await second.close();
  });

  it('is opened as it is when it was made with nodes of another size, while a new one has small ones', async () => {
    const id = '11111111-2222-4333-8444-555555555555';
    const content = join(options.folder, 'old');
    for (const part of FOLDERS) await mkdir(join(content, part), { recursive: true });
    await writeFile(join(content, VAULT_FILE), JSON.stringify({ format: VAULT_FORMAT, id, name: options.name }));
    const made = ['--nodesize', '16384', '--uuid', id, '--label', `space:${options.name}`, '--rootdir', content];
    execFileSync('mkfs.btrfs', ['-q', ...made, device], { stdio: 'ignore' });
    const old = await openVault(options);
    await old.readPoint(await takePoint(old, await bootLife(old)));
    expect(await nodeBytesOf(id)).toBe(16_384);
    await old.close();

    const other = await makeFolder();
    const fresh = await openVault(other);
    const vaultFile = await readFile(join(other.folder, 'mnt', VAULT_FILE), 'utf8');
    expect(await nodeBytesOf(JSON.parse(vaultFile).id)).toBe(4096);
    await fresh.close();
    await takeDown(other.folder);
  });

  it.each([
    ['a file system', () => execFileSync('mkfs.ext4', ['-q', device])],
    ['a Btrfs that is not a vault', () => execFileSync('mkfs.btrfs', ['-q', device], { stdio: 'ignore' })],
    ['a partition table', () => writeFileSync(device, MASTER_BOOT_RECORD, { flag: 'r+' })],
    [
      'bytes without a signature',
      () => execFileSync('dd', ['if=/dev/urandom', `of=${device}`, 'bs=4k', 'count=4', 'status=none']),
    ],
  ])('is refused and left alone when it holds %s', async (_, fill) => {
    fill();
    const before = execFileSync('sha256sum', [join(options.folder, 'device.img')]).toString();
    expect((await failureOf(openVault(options))).code).toBe('unavailable');
    expect(execFileSync('sha256sum', [join(options.folder, 'device.img')]).toString()).toBe(before);
  });

  it('is made again when the first open was killed half-way, and only then', async () => {
    const note = join(options.folder, 'making-device');
    execFileSync('dd', ['if=/dev/urandom', `of=${device}`, 'bs=4k', 'count=4', 'status=none']);
    await writeFile(note, `11111111-2222-4333-8444-555555555555 ${device}\n`);
    await (await openVault(options)).close();
    expect(await readdir(options.folder)).not.toContain('making-device');

    execFileSync('mkfs.btrfs', ['-q', '-f', device], { stdio: 'ignore' });
    await writeFile(note, `11111111-2222-4333-8444-555555555555 ${device}\n`);
    expect((await failureOf(openVault(options))).message).toContain('signature');
    await rm(note);
  });

  it('is refused when it is in use through another folder', async () => {
    const vault = await openVault(options);
    const other = await makeFolder();
    const refused = await failureOf(openVault(await vaultIn(other.folder, { kind: 'device', path: device })));
    expect(refused.message).toContain('in use');
    await vault.close();
    await takeDown(other.folder);
  });
});

describe('closing', () => {
  it('refuses while a file is open, stays open itself, and then closes', async () => {
    const vault = await openVault(options);
    const lifeId = await bootLife(vault);
    const file = await open(vault.lifeFiles(lifeId).memory, 'r+');
    const refused = await failureOf(vault.close());
    expect(refused).toMatchObject({ code: 'vault_in_use', message: expect.stringContaining('in use') });
    expect(await vault.lives()).toEqual([lifeId]);
    await file.close();
    await vault.close();
    await expectNothingLeft(options.folder);
    expect((await failureOf(vault.lives())).code).toBe('unavailable');
  });

  it('fails an open whose file was swapped, and leaves nothing mounted', async () => {
    await (await openVault(options)).close();
    const other = await makeFolder();
    await (await openVault(other)).close();
    // Ours by its label, but the id inside is made another's.
    const mounted = await openVault(other);
    await writeFile(
      join(other.folder, 'mnt/vault.json'),
      JSON.stringify({ format: 1, id: 'another', name: 'default' }),
    );
    await mounted.close();
    await rename(join(other.folder, 'vault.btrfs'), join(options.folder, 'vault.btrfs'));
    await takeDown(other.folder);
    expect((await failureOf(openVault(options))).message).toContain('another');
    await expectNothingLeft(options.folder);
  });
});
