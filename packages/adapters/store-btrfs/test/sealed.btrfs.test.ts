/** Encrypted containers: what they are, and what happens to them when something goes wrong. */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { copyFile, link, mkdir, open, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { AppError, Vault, VaultName } from '@space/core';
import { bootLife, readLife, takePoint, writeLife } from '@space/testkit/vault-suite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BtrfsContainers } from '../src/containers.ts';
import { expectNothingLeft, helperFor, keyOf, loopsIn, makeContainers, SEALED, serversOf, takeDown } from './world.ts';

const run = promisify(execFile);
const MIB = 1024 * 1024;
const SIZE_BYTES = 256 * MIB;
const PIECE = 256 * 1024;
const HEADER_BYTES = 16 * 1024;
const MARKER = 'plainly-to-be-seen-';
const wish = (token: string | null = null) => ({ sizeBytes: SIZE_BYTES, key: keyOf(1), token });

let world: Awaited<ReturnType<typeof makeContainers>>;
beforeEach(async () => {
  world = await makeContainers();
});
afterEach(() => world.dispose());

async function failureOf(call: Promise<unknown>): Promise<AppError> {
  return await call.then(
    () => expect.unreachable('the call succeeded'),
    (thrown: AppError) => thrown,
  );
}

/** Overwrites a part of the file. */
async function spoil(path: string, offset: number, bytes = 4096): Promise<void> {
  await using file = await open(path, 'r+');
  await file.write(Buffer.alloc(bytes, 0xff), 0, bytes, offset);
  await file.sync();
}

/** Of its headers, and when it was last written to at all. */
async function digestOf(path: string): Promise<string> {
  const header = execFileSync('sh', ['-c', `head --bytes 2M '${path}' | sha256sum`]).toString();
  return `${header} ${(await stat(path, { bigint: true })).mtimeNs}`;
}

/** How often the marker is in the bytes of a file. */
const markersIn = (path: string): number =>
  Number(execFileSync('sh', ['-c', `grep --text --only-matching '${MARKER}' '${path}' | wc --lines`]).toString());

async function writeMarkers(vault: Vault): Promise<void> {
  const lifeId = await bootLife(vault);
  await writeLife(vault, lifeId, 'disk', MARKER.repeat(500));
  await writeFile(join(vault.lifeFiles(lifeId).disk, `../${MARKER}name`), MARKER.repeat(500));
  await takePoint(vault, lifeId);
}

/** Writes the numbers of what is durable, one after the other, until writing fails. */
async function writeUntilFailure(path: string, after: { readonly count: number; readonly act: () => void }) {
  await using file = await open(path, 'w');
  let acknowledged = 0;
  try {
    for (;;) {
      await file.write(Buffer.alloc(PIECE, acknowledged % 251), 0, PIECE, acknowledged * PIECE);
      await file.sync();
      acknowledged += 1;
      if (acknowledged === after.count) after.act();
    }
  } catch {
    return acknowledged;
  }
}

async function expectWritten(path: string, count: number): Promise<void> {
  const bytes = await readFile(path);
  for (let index = 0; index < count; index++) expect(bytes[index * PIECE]).toBe(index % 251);
}

describe('a container', () => {
  it('is one for cryptsetup: it has no keyslot, keeps its token, and opens by its key alone', async () => {
    await world.containers.create(SEALED, wish('wrapped "key"'));
    const dump = execFileSync('cryptsetup', ['luksDump', world.container]).toString();
    expect(dump).toMatch(/cipher: aes-xts-plain64\s+sector: 4096 \[bytes\]\s+Keyslots:\s+Tokens:\s+0: space-keyring/);
    const token = execFileSync('cryptsetup', ['token', 'export', '--token-id', '0', world.container]).toString();
    expect(JSON.parse(token)).toMatchObject({ type: 'space-keyring', keyslots: [], keyring: 'wrapped "key"' });
    const tried = (first: number) => {
      const script = 'exec cryptsetup open --test-passphrase --key-size 512 --volume-key-file "$0" "$1"';
      const key = join(world.folder, `key-${first}`);
      writeFileSync(key, keyOf(first).reveal());
      return spawnSync('sh', ['-c', script, key, world.container], { stdio: 'ignore' }).status;
    };
    expect([tried(1), tried(2)]).toEqual([0, 2]);
  });

  it('made again takes the token that it is given, also into the copy of its header', async () => {
    await world.containers.create(SEALED, wish('first'));
    await world.containers.create(SEALED, wish('second'));
    for (const offset of [0, HEADER_BYTES]) await spoil(world.container, offset);
    await (await world.containers.open(SEALED, keyOf(1))).close();
    const token = execFileSync('cryptsetup', ['token', 'export', '--token-id', '0', world.container]).toString();
    expect(JSON.parse(token)).toMatchObject({ keyring: 'second' });
  });

  it('keeps another token, closed or open, in both headers and the copy of them, for who has the key', async () => {
    const tokenNow = () => {
      const text = execFileSync('cryptsetup', ['token', 'export', '--token-id', '0', world.container]).toString();
      return (JSON.parse(text) as { keyring: string }).keyring;
    };
    await world.containers.create(SEALED, wish('first'));
    await world.containers.keepToken(SEALED, keyOf(1), 'second');
    expect(tokenNow()).toBe('second');
    const vault = await world.containers.open(SEALED, keyOf(1));
    const path = join(world.folder, SEALED, 'mnt/file');
    await writeFile(path, 'kept');
    await expect(world.containers.keepToken(SEALED, keyOf(2), 'third')).rejects.toMatchObject({
      code: 'vault_key_wrong',
    });
    await world.containers.keepToken(SEALED, keyOf(1), 'fourth');
    expect(tokenNow()).toBe('fourth');
    expect(execFileSync('head', ['-c', '1M', world.container]).includes('first')).toBe(false);
    await vault.close();
    for (const offset of [0, HEADER_BYTES]) await spoil(world.container, offset);
    const again = await world.containers.open(SEALED, keyOf(1));
    expect(await readFile(path, 'utf8')).toBe('kept');
    expect(tokenNow()).toBe('fourth');
    await again.close();
  });

  it('whose close was broken off is ended by the next helper, and its server with the key', async () => {
    await world.containers.create(SEALED, wish());
    const vault = await world.containers.open(SEALED, keyOf(1));
    const path = join(world.folder, SEALED, 'mnt/file');
    await writeFile(path, 'kept');
    const another = async () =>
      new BtrfsContainers({ folder: world.folder, helper: (await helperFor(world.folder, [])).helper });
    // One that is mounted is left as it is.
    await another();
    expect(await readFile(path, 'utf8')).toBe('kept');
    execFileSync('umount', [join(world.folder, SEALED, 'mnt')]);
    expect(await serversOf(world.folder)).toHaveLength(1);
    const next = await another();
    expect(await serversOf(world.folder)).toEqual([]);
    expect(await loopsIn(join(world.folder, SEALED))).toEqual([]);
    // By whoever had begun it, who is no more, in life.
    await vault.close();
    const again = await next.open(SEALED, keyOf(1));
    expect(await readFile(path, 'utf8')).toBe('kept');
    await again.close();
  });

  it('has nothing in plain in it: no data, no name', async () => {
    const plain = 'plain' as VaultName;
    await world.containers.create(plain, { sizeBytes: SIZE_BYTES, key: null, token: null });
    await world.containers.create(SEALED, wish());
    for (const [name, key] of [[plain, null] as const, [SEALED, keyOf(1)] as const]) {
      const vault = await world.containers.open(name, key);
      await writeMarkers(vault);
      await vault.close();
    }
    expect(markersIn(join(world.folder, plain, 'vault.btrfs'))).toBeGreaterThan(500);
    expect(markersIn(world.container)).toBe(0);
  });

  it('gives the host the space of what is deleted, and takes more when it grows while it is open', async () => {
    await world.containers.create(SEALED, wish());
    const vault = await world.containers.open(SEALED, keyOf(1));
    const taken = async () => (await stat(world.container)).blocks * 512;
    const file = join(world.folder, SEALED, 'mnt/filling');
    await run('dd', ['if=/dev/urandom', `of=${file}`, 'bs=1M', 'count=100', 'conv=fsync', 'status=none']);
    const full = await taken();
    await rm(file);
    await run('sync', ['--file-system', join(world.folder, SEALED, 'mnt')]);
    await run('fstrim', [join(world.folder, SEALED, 'mnt')]);
    expect(full - (await taken())).toBeGreaterThan(90 * MIB);
    const { totalBytes } = await vault.space();
    await world.containers.grow(SEALED, 2 * SIZE_BYTES);
    expect((await vault.space()).totalBytes).toBe(2 * totalBytes);
    await vault.close();
  });
});

describe('the vault server', () => {
  it('has no privilege but to lock memory, no way to anybody, and a group of its own', async () => {
    await world.containers.create(SEALED, wish());
    const vault = await world.containers.open(SEALED, keyOf(1));
    const [server, ...others] = await serversOf(world.folder);
    expect(others).toEqual([]);
    const status = await readFile(`/proc/${server}/status`, 'utf8');
    for (const line of [
      /^Uid:\t2000000001\t2000000001\t2000000001/m,
      /^CapEff:\t0000000000004000$/m,
      /^CapPrm:\t0000000000004000$/m,
      /^NoNewPrivs:\t1$/m,
      /^Seccomp:\t2$/m,
    ]) {
      expect(status).toMatch(line);
    }
    // What belongs to root there is what other processes of its user may not read.
    expect((await stat(`/proc/${server}/mem`)).uid).toBe(0);
    expect(await readFile(`/proc/${server}/environ`, 'utf8')).toBe('');
    const limits = await readFile(`/proc/${server}/limits`, 'utf8');
    expect(limits).toMatch(/^Max core file size +[01] +[01] /m);
    const groups = (await readFile(`/proc/${server}/cgroup`, 'utf8')).split('\n');
    expect(groups.filter((group) => /\/space\/|vmm-/.test(group))).toEqual([]);
    if (existsSync('/sys/fs/cgroup/space') || existsSync('/sys/fs/cgroup/memory/space')) {
      expect(groups.some((group) => group.endsWith('/space-vaults'))).toBe(true);
    }
    await vault.close();
    expect(await serversOf(world.folder)).toEqual([]);
  });

  it('killed under load loses nothing that was acknowledged', async () => {
    await world.containers.create(SEALED, wish());
    const vault = await world.containers.open(SEALED, keyOf(1));
    const [server = 0] = await serversOf(world.folder);
    const path = join(world.folder, SEALED, 'mnt/log');
    const acknowledged = await writeUntilFailure(path, { count: 20, act: () => process.kill(server, 'SIGKILL') });
    expect(acknowledged).toBeGreaterThanOrEqual(20);
    await vault.close();
    await expectNothingLeft(world.folder);
    const again = await world.containers.open(SEALED, keyOf(1));
    await expectWritten(path, acknowledged);
    await again.close();
  });

  it('is not waited for by those whose memory it writes out', async () => {
    await world.containers.create(SEALED, wish());
    const vault = await world.containers.open(SEALED, keyOf(1));
    const group =
      ['/sys/fs/cgroup/memory', '/sys/fs/cgroup'].find((path) => existsSync(join(path, 'cgroup.procs'))) ?? '';
    const own = join(group, `space-test-${process.pid}`);
    await mkdir(own);
    try {
      const limit = existsSync(join(own, 'memory.max')) ? 'memory.max' : 'memory.limit_in_bytes';
      await writeFile(join(own, limit), `${24 * MIB}`);
      const file = join(world.folder, SEALED, 'mnt/filling');
      const script = `echo $$ > ${own}/cgroup.procs; exec dd if=/dev/zero of=${file} bs=1M count=100 conv=fsync status=none`;
      await run('sh', ['-c', script], { timeout: 60_000 });
      expect((await stat(file)).size).toBe(100 * MIB);
    } finally {
      execFileSync('rmdir', [own]);
    }
    await vault.close();
  });
});

describe('opening', () => {
  it('with a wrong key touches nothing', async () => {
    await world.containers.create(SEALED, wish());
    const before = await digestOf(world.container);
    const opened = await failureOf(world.containers.open(SEALED, keyOf(2)));
    expect(opened.code).toBe('vault_key_wrong');
    for (const offset of [0, HEADER_BYTES]) await spoil(world.container, offset);
    const spoiled = await digestOf(world.container);
    // Nor does it mend anything.
    expect((await failureOf(world.containers.open(SEALED, keyOf(2)))).code).toBe('vault_key_wrong');
    expect(await digestOf(world.container)).toBe(spoiled);
    await (await world.containers.open(SEALED, keyOf(1))).close();
    expect(await digestOf(world.container)).not.toBe(before);
    await expectNothingLeft(world.folder);
  });

  it('mends a header from its second copy, and both from the one that is kept; without that it says so', async () => {
    await world.containers.create(SEALED, wish());
    const first = await world.containers.open(SEALED, keyOf(1));
    const lifeId = await bootLife(first);
    await writeLife(first, lifeId, 'disk', 'kept');
    await first.close();
    for (const offsets of [[0], [HEADER_BYTES], [0, HEADER_BYTES]]) {
      for (const offset of offsets) await spoil(world.container, offset);
      const vault = await world.containers.open(SEALED, keyOf(1));
      expect(await readLife(vault, lifeId, 'disk', 4)).toBe('kept');
      await vault.close();
    }
    for (const offset of [0, HEADER_BYTES]) await spoil(world.container, offset);
    await rm(join(world.folder, SEALED, 'header.luks'));
    expect((await failureOf(world.containers.open(SEALED, keyOf(1)))).code).toBe('vault_damaged');
    await expectNothingLeft(world.folder);
  });

  it('is refused while it is open through another folder', async () => {
    await world.containers.create(SEALED, wish());
    const vault = await world.containers.open(SEALED, keyOf(1));
    const other = `${world.folder}-other`;
    await mkdir(join(other, SEALED), { recursive: true });
    try {
      await link(world.container, join(other, SEALED, 'vault.luks'));
      await copyFile(join(world.folder, SEALED, 'lock'), join(other, SEALED, 'lock'));
      const { helper } = await helperFor(other, []);
      const containers = new BtrfsContainers({ folder: other, helper });
      expect((await failureOf(containers.open(SEALED, keyOf(1)))).code).toBe('vault_busy');
      expect(await loopsIn(other)).toEqual([]);
    } finally {
      await takeDown(other);
    }
    await bootLife(vault);
    await vault.close();
  });

  it('finds after a power cut what was acknowledged before', async () => {
    await world.containers.create(SEALED, wish());
    const vault = await world.containers.open(SEALED, keyOf(1));
    const copied = join(world.folder, 'after-power-cut');
    const path = join(world.folder, SEALED, 'mnt/log');
    let copying: Promise<unknown> = Promise.resolve();
    const acknowledged = 10;
    await using file = await open(path, 'w');
    for (let index = 0; index < 30; index++) {
      await file.write(Buffer.alloc(PIECE, index), 0, PIECE, index * PIECE);
      await file.sync();
      // Writing goes on meanwhile. Direct I/O leaves nothing in a cache in between.
      if (index === acknowledged) copying = run('cp', ['--sparse=always', world.container, copied]);
    }
    await copying;
    await file.close();
    await vault.close();
    await rm(world.container);
    await run('mv', [copied, world.container]);
    const again = await world.containers.open(SEALED, keyOf(1));
    await expectWritten(path, acknowledged);
    await again.close();
  });
});

describe('closing and removing', () => {
  it('is refused while a file is open, and is whole then', async () => {
    await world.containers.create(SEALED, wish());
    const vault = await world.containers.open(SEALED, keyOf(1));
    const lifeId = await bootLife(vault);
    const file = await open(vault.lifeFiles(lifeId).memory, 'r+');
    expect((await failureOf(vault.close())).code).toBe('vault_in_use');
    expect((await failureOf(world.containers.remove(SEALED))).code).toBe('vault_in_use');
    expect(await vault.lives()).toEqual([lifeId]);
    await file.close();
    await vault.close();
    await expectNothingLeft(world.folder);
  });

  it('removed, is noise to who has the key and kept the file', async () => {
    await world.containers.create(SEALED, wish('wrapped'));
    const kept = join(world.folder, 'kept');
    await link(world.container, kept);
    await link(join(world.folder, SEALED, 'header.luks'), `${kept}-header`);
    await world.containers.remove(SEALED);
    expect(existsSync(join(world.folder, SEALED))).toBe(false);
    for (const path of [kept, `${kept}-header`]) {
      expect(() => execFileSync('cryptsetup', ['isLuks', path], { stdio: 'ignore' })).toThrow();
      expect(
        execFileSync('sh', ['-c', `grep --text --count wrapped '${path}' || true`])
          .toString()
          .trim(),
      ).toBe('0');
    }
  });
});

describe('a full disk of the host', () => {
  it('fails what is written, and keeps what was acknowledged', async () => {
    const image = `${world.folder}-disk`;
    const { folder } = world;
    await run('truncate', ['--size', '80M', image]);
    await run('mkfs.ext4', ['-q', '-m', '0', image]);
    await mkdir(join(folder, 'host'));
    await run('mount', ['-o', 'loop', image, join(folder, 'host')]);
    try {
      const { helper } = await helperFor(join(folder, 'host'), []);
      const containers = new BtrfsContainers({ folder: join(folder, 'host'), helper });
      await containers.create(SEALED, wish());
      const vault = await containers.open(SEALED, keyOf(1));
      const path = join(folder, 'host', SEALED, 'mnt/log');
      const acknowledged = await writeUntilFailure(path, { count: -1, act: () => undefined });
      expect(acknowledged).toBeGreaterThan(50);
      await vault.close();
      const again = await containers.open(SEALED, keyOf(1));
      await expectWritten(path, acknowledged);
      await again.close();
    } finally {
      await takeDown(join(folder, 'host')).catch(() => undefined);
      await run('umount', ['--recursive', join(folder, 'host')]).catch(() => undefined);
      await rm(image, { force: true });
    }
  });
});
