/**
 * The whole platform with an encrypted vault, on real microVMs: what a tenant leaves is found in plain nowhere on the machine, and a
 * revocation takes everything away within seconds, and its keys out of every memory; reinstated, everything is back.
 *
 * `SPACE_FULL=1`: ten sandboxes run while the vault is revoked, instead of four.
 */
import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type OrganisationId, parseKeyringToken, unwrapKeyring, type VaultName } from '@space/core';
import { createKey, getVault, listVaults, reinstateVault, revokeVault, Sandbox, updateVault } from '@space/sdk';
import { type Config, keysFolderOf, mountsNaming, openKms, processesNaming, startPlatform } from '@space/server';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Daemon, endDaemon, startDaemon } from './daemon.ts';
import { filesWith, inMemoryOf, processesOf, swapAreas } from './traces.ts';
import { ask, placeWitness, type Testimony } from './witness.ts';
import { removeAll, testConfig } from './world.ts';

const run = promisify(execFile);
const COUNT = process.env['SPACE_FULL'] === '1' ? 10 : 4;
const SMALL = { size: { memoryMib: 256, diskMib: 2048 }, snapshots: { everyMs: 'off' as const } };
const MARKER = `marker-${randomBytes(12).toString('hex')}`;
/** Further apart than what a file system keeps in one piece, so that one of them is whole in some block. */
const MANY = `for i in $(seq 2000); do echo "$i $WORD"; done`;
const STOPS_WITHIN_MS = 60_000;

let config: Config;
let daemon: Daemon;
let admin: { readonly baseUrl: string; readonly apiKey: string };
let holder: typeof admin;
let vault: VaultName;
let first: Sandbox;
/** Older than whatever the platform writes. */
let stamp: string;

beforeAll(async () => {
  config = { ...testConfig(await mkdtemp('/var/tmp/space-e2e-')), encrypted: true, memoryMib: COUNT * 320 + 640 };
  stamp = join(config.dataDir, 'stamp');
  await writeFile(stamp, '');
  daemon = await startDaemon(config);
  admin = { baseUrl: daemon.url, apiKey: daemon.apiKey ?? '' };
  holder = { ...admin, apiKey: (await createKey({ ...admin, roles: ['key_holder'] })).secretKey ?? '' };
  first = await Sandbox.create({
    ...admin,
    ...SMALL,
    env: { WORD: `${MARKER}-environment` },
    metadata: { word: `${MARKER}-metadata` },
  });
  const { vaults } = await listVaults(holder);
  vault = vaults.find(({ isDefault }) => isDefault)?.name as VaultName;
});
afterAll(async () => {
  await endDaemon(daemon, 'SIGKILL');
  // Takes up whatever a failed test left, and closes it.
  await (await startPlatform(config)).close();
  await removeAll(config);
});

it('leaves nothing of a tenant in plain: not on its disk, in its memory, in names, in the database, in logs or in temporary files', async () => {
  await first.run(
    `export WORD=${MARKER}-disk; (${MANY}) > written; mkdir ${MARKER}-folder; touch ${MARKER}-folder/${MARKER}-name; sync`,
  );
  await first.files.write(`${MARKER}-uploaded`, `${MARKER}-content`);
  await first.run(`export WORD=${MARKER}-memory; (${MANY}) > /dev/shm/held`);
  await first.start(['sh', '-c', `: ${MARKER}-command; exec sleep 1000000`]);
  await first.snapshot({ note: `${MARKER}-note` });
  const [child] = await first.fork(1);
  await child?.run('true');
  await child?.pause();

  const roots = [
    config.dataDir,
    config.runDir,
    '/run',
    '/dev/shm',
    '/tmp',
    '/var/tmp',
    '/var/log',
    '/var/spool',
    tmpdir(),
  ];
  const look = async () => filesWith(MARKER, [...new Set([...roots, ...(await swapAreas())])], stamp);
  // Where it is in plain it is found: also over the pieces in which a file is read, behind a hole, and in a name.
  const control = join(config.dataDir, 'control-of-the-search');
  const seen = [join(control, 'behind-a-hole'), join(control, 'over-pieces'), join(control, `${MARKER}-name`)];
  await mkdir(control);
  await writeFile(seen[1] ?? '', Buffer.concat([Buffer.alloc(32 * 1024 - 7, 'x'), Buffer.from(`${MARKER}-split`)]));
  await run('truncate', ['--size', '100G', seen[0] ?? '']);
  await run('sh', ['-c', 'echo "$1" >> "$0"', seen[0] ?? '', MARKER]);
  await writeFile(seen[2] ?? '', '');
  expect(await look()).toEqual(seen.toSorted());
  await rm(control, { recursive: true });
  // The view through the open vault does show it: what was searched had it, and only as ciphertext.
  const inside = await filesWith(MARKER, [join(config.dataDir, 'vaults', vault, 'mnt')], stamp, { within: '' });
  expect(inside.some((path) => path.includes('/lives/'))).toBe(true);
  expect(inside.some((path) => path.includes('/points/'))).toBe(true);

  expect(await look()).toEqual([]);
  await child?.delete();
});

it(`stops ${COUNT} running sandboxes when the key is revoked, closes the vault, wipes its keys, and gives all back`, {
  timeout: 600_000,
}, async () => {
  const sandboxes = [first, ...(await first.fork(COUNT - 1))];
  const before: Testimony[] = [];
  for (const sandbox of sandboxes) before.push(await placeWitness(sandbox));
  const keys = await keysOf(vault);
  const holding = async () => {
    const found: string[] = [];
    for (const { pid, name } of await processesOf(daemon.process.pid ?? 0, config.dataDir, config.runDir)) {
      // Of guests everything is in the vault; what is theirs is no process of the platform.
      if (name.startsWith('qemu')) continue;
      for (const key of await inMemoryOf(pid, keys)) found.push(`${key} in ${name}`);
    }
    return found;
  };
  // The search finds them where they have to be; and the one that opens the vault nowhere else.
  const held = await holding();
  expect(held.filter((one) => one.startsWith('content key')).length, held.join('\n')).toBeGreaterThan(0);
  expect(held.filter((one) => one.startsWith('volume key'))).toEqual([
    expect.stringContaining('space-vault-ser'),
    expect.stringContaining('space-vault-ser'),
  ]);

  const point = await first.snapshot();
  await revokeVault(vault, { ...holder, reason: 'a test' });
  const refused = { code: 'vault_revoked' };
  const tried = [
    () => Sandbox.create({ ...admin, ...SMALL }),
    () => Sandbox.create({ ...admin, snapshot: point }),
    () => first.fork(1),
    () => first.resume(),
    () => first.rewind(point),
    () => first.run('true'),
    () => first.files.read('witness.py'),
    () => first.export(),
  ];
  for (const [index, call] of tried.entries()) {
    await expect(call(), `call ${index}`).rejects.toMatchObject(refused);
  }
  await expect.poll(async () => (await getVault(vault, holder)).open, { timeout: STOPS_WITHIN_MS }).toBe(false);
  await expectClosed();
  expect(await holding()).toEqual([]);
  for (const sandbox of sandboxes) await expect(sandbox.run('true')).rejects.toMatchObject(refused);

  await reinstateVault(vault, holder);
  for (const [index, sandbox] of sandboxes.entries()) {
    const { word, pid } = before[index] ?? {};
    expect(await ask(sandbox), `sandbox ${index}`).toMatchObject({ word, held: word, pid });
  }

  // A vault that says so ends them: each goes on from its last point.
  await updateVault(vault, { ...holder, onRevoke: 'kill' });
  await first.files.write('kept', 'before the point');
  await first.snapshot();
  await revokeVault(vault, holder);
  await expect.poll(async () => (await getVault(vault, holder)).open, { timeout: STOPS_WITHIN_MS }).toBe(false);
  await expectClosed();
  await reinstateVault(vault, holder);
  await first.resume();
  expect(await first.files.read('kept')).toBe('before the point');
  expect(await ask(first)).toMatchObject({ word: before[0]?.word, pid: before[0]?.pid });
  for (const sandbox of sandboxes.slice(1)) await sandbox.delete();
});

/** Nothing of the vault is left but its container. */
async function expectClosed(): Promise<void> {
  expect(await mountsNaming(join(config.dataDir, 'vaults'))).toEqual([]);
  expect(
    execFileSync('losetup', ['--list', '--noheadings', '--output', 'BACK-FILE'], { encoding: 'utf8' }),
  ).not.toContain(config.dataDir);
  expect(await processesNaming(join(config.dataDir, 'vaults'))).toEqual([]);
  // A microVM that waits for a sandbox to come has nothing of one.
  const running = (await readdir(join(config.runDir, 'lives'))).filter((name) => !name.startsWith('spare'));
  expect(running).toEqual([]);
  const ours = await processesOf(daemon.process.pid ?? 0, config.dataDir, config.runDir);
  expect(ours.filter(({ name }) => name.startsWith('space-vault-ser'))).toEqual([]);
}

/** What is to be in no memory once the vault is closed: halves, since the cipher keeps each half of its key apart. */
async function keysOf(name: VaultName): Promise<ReadonlyMap<string, Buffer>> {
  const folder = join(config.dataDir, 'vaults', name);
  const container = (await readdir(folder)).find((file) => file.endsWith('.luks')) ?? '';
  const exported = execFileSync('cryptsetup', ['token', 'export', '--token-id', '0', join(folder, container)]);
  const token = (JSON.parse(exported.toString()) as { keyring: string }).keyring;
  const { organisation } = JSON.parse(token) as { organisation: OrganisationId };
  const keyring = parseKeyringToken(token);
  const kms = (await openKms(keysFolderOf(config))).keyOf(keyring.reference, organisation);
  const context = { organisationId: organisation, vault: name };
  const signal = AbortSignal.timeout(10_000);
  const { volumeKey, contentKey } = await unwrapKeyring(keyring, { kms, context, signal });
  const volume = Buffer.from(volumeKey.reveal());
  return new Map([
    ['volume key, first half', volume.subarray(0, 32)],
    ['volume key, second half', volume.subarray(32)],
    ['content key', Buffer.from(contentKey.reveal())],
  ]);
}
