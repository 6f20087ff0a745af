/**
 * Where a vault's bytes lie: a sparse file that appears as a loop device, or a device that was given to us.
 *
 * A file system is made once, and never over something that may be anybody's. The loop file is made under another name and renamed
 * when it is whole. A device has no second name, so the intention is written down first, with the UUID that the file
 * system will have: a device that an interrupted first open left half-made is told from a foreign one by that note.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, mkdtemp, open, readFile, rename, rm, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { AppError, type VaultName } from '@space/core';
import { replaceFile, syncFolder, writeSynced } from './durable.ts';
import { errnoOf } from './failures.ts';
import { FOLDER_MODES, FOLDERS, ROOT_MODE, VAULT_FILE, VAULT_FORMAT } from './layout.ts';

export type Backing =
  /** A sparse file in the vault's folder; it grows to `sizeBytes` as it is written, and is enlarged when that is raised. */
  { readonly kind: 'loop'; readonly sizeBytes: number } | { readonly kind: 'device'; readonly path: string };

const run = promisify(execFile);
const LOOP_FILE = 'vault.btrfs';
const DEVICE_NOTE = 'making-device.json';
const TOOL_TIMEOUT_MS = 60_000;

/** `struct btrfs_super_block`: at 64 KiB; checksum, file-system UUID, …, magic, …, size, …, label. */
const SUPERBLOCK_OFFSET = 65_536;
const SUPERBLOCK_BYTES = 4096;
const UUID_OFFSET = 32;
const MAGIC_OFFSET = 64;
const MAGIC = '_BHRfS_M';
const TOTAL_BYTES_OFFSET = 112;
const LABEL_OFFSET = 299;
const LABEL_BYTES = 256;

/** The path of the file or device that holds this vault's file system, which is made if there is none yet. */
export async function prepareBacking(folder: string, name: VaultName, backing: Backing): Promise<string> {
  if (backing.kind === 'loop') return await prepareLoopFile(folder, name, backing.sizeBytes);
  await prepareDevice(folder, name, backing.path);
  return backing.path;
}

async function prepareLoopFile(folder: string, name: VaultName, sizeBytes: number): Promise<string> {
  const file = join(folder, LOOP_FILE);
  const roundedBytes = Math.floor(sizeBytes / SUPERBLOCK_BYTES) * SUPERBLOCK_BYTES;
  const found = await stat(file).catch(ignoreNoEntry);
  if (found !== undefined) {
    await requireOurs(file, name);
    if (found.size < roundedBytes) await truncate(file, roundedBytes);
    return file;
  }
  const halfMade = `${file}.new`;
  await rm(halfMade, { force: true });
  await writeSynced(halfMade, '');
  await truncate(halfMade, roundedBytes);
  await makeFileSystem({ folder, target: halfMade, name, uuid: randomUUID(), overwrite: false });
  await using made = await open(halfMade, 'r');
  await made.sync();
  await rename(halfMade, file);
  await syncFolder(folder);
  return file;
}

async function prepareDevice(folder: string, name: VaultName, device: string): Promise<void> {
  const found = await stat(device).catch(ignoreNoEntry);
  if (!found?.isBlockDevice()) throw new AppError('unavailable', `${device} is no block device.`);
  const note = join(folder, DEVICE_NOTE);
  const interrupted = await readNote(note, device);
  const superblock = await readSuperblock(device);
  if (interrupted === undefined && superblock !== undefined) return await requireOurs(device, name);
  const resumable = interrupted !== undefined && (superblock === undefined || superblock.uuid === interrupted);
  if (!resumable) await requireBlank(device);
  const uuid = interrupted ?? randomUUID();
  await replaceFile(note, `${note}.new`, JSON.stringify({ device, uuid }));
  await makeFileSystem({ folder, target: device, name, uuid, overwrite: resumable });
  await rm(note);
  await syncFolder(folder);
}

/** The UUID that an interrupted first open meant to give to this device. */
async function readNote(path: string, device: string): Promise<string | undefined> {
  const text = await readFile(path, 'utf8').catch(ignoreNoEntry);
  if (text === undefined) return undefined;
  const note = JSON.parse(text) as { device: string; uuid: string };
  return note.device === device ? note.uuid : undefined;
}

interface NewFileSystem {
  readonly folder: string;
  readonly target: string;
  readonly name: VaultName;
  readonly uuid: string;
  /** Over what an interrupted call left. */
  readonly overwrite: boolean;
}

/** The features are named, so that every version of the tool makes the same file system. */
async function makeFileSystem({ folder, target, name, uuid, overwrite }: NewFileSystem): Promise<void> {
  const content = await mkdtemp(join(folder, 'content-'));
  try {
    await chmod(content, ROOT_MODE);
    for (const part of FOLDERS) await mkdir(join(content, part), { mode: FOLDER_MODES[part] });
    await writeSynced(
      join(content, VAULT_FILE),
      `${JSON.stringify({ format: VAULT_FORMAT, id: uuid, name }, null, 2)}\n`,
    );
    const options = [
      '--quiet',
      ...(overwrite ? ['--force'] : []),
      '--uuid',
      uuid,
      '--label',
      labelOf(name),
      '--rootdir',
      content,
    ];
    const profile = ['--data', 'single', '--metadata', 'dup', '--csum', 'crc32c'];
    const sizes = ['--nodesize', '16384', '--sectorsize', '4096'];
    const features = ['-O', 'extref,skinny-metadata,no-holes', '-R', 'free-space-tree'];
    await run('mkfs.btrfs', [...options, ...profile, ...sizes, ...features, target], { timeout: TOOL_TIMEOUT_MS });
  } finally {
    await rm(content, { recursive: true, force: true });
  }
}

function labelOf(name: VaultName): string {
  return `space:${name}`;
}

async function requireOurs(path: string, name: VaultName): Promise<void> {
  const superblock = await readSuperblock(path);
  if (superblock?.label === labelOf(name)) return;
  const holds =
    superblock === undefined ? 'no vault' : `a Btrfs file system labelled ${JSON.stringify(superblock.label)}`;
  throw new AppError(
    'unavailable',
    `${path} holds ${holds} where the vault ${name} is expected; it is left as it is. Give another path, or empty it yourself.`,
  );
}

interface Superblock {
  readonly uuid: string;
  readonly totalBytes: number;
  readonly label: string;
}

/** What the Btrfs superblock says; undefined when there is none. */
export async function readSuperblock(path: string): Promise<Superblock | undefined> {
  await using file = await open(path, 'r');
  const { buffer, bytesRead } = await file.read(Buffer.alloc(SUPERBLOCK_BYTES), 0, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET);
  if (bytesRead < SUPERBLOCK_BYTES) return undefined;
  if (buffer.toString('latin1', MAGIC_OFFSET, MAGIC_OFFSET + MAGIC.length) !== MAGIC) return undefined;
  const hex = buffer.toString('hex', UUID_OFFSET, UUID_OFFSET + 16);
  const label = buffer.subarray(LABEL_OFFSET, LABEL_OFFSET + LABEL_BYTES);
  return {
    uuid: hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
    totalBytes: Number(buffer.readBigUInt64LE(TOTAL_BYTES_OFFSET)),
    label: label.toString('utf8', 0, label.indexOf(0)),
  };
}

const BLANK_CHECK_BYTES = 1024 * 1024;
const BLKID_FOUND_NOTHING = 2;

/** No known signature anywhere, and only zeros where headers and their copies lie: encrypted data has no signature. */
async function requireBlank(device: string): Promise<void> {
  const probe = await run('blkid', ['--probe', device], { timeout: TOOL_TIMEOUT_MS }).catch((error) => error);
  const signed = probe.code !== BLKID_FOUND_NOTHING;
  if (!signed && (await isZero(device))) return;
  const reason = signed
    ? `has a signature (${String(probe.stdout).trim()})`
    : 'has bytes other than zero at its start or end';
  throw new AppError(
    'unavailable',
    `${device} ${reason}; it is left as it is. Give another device, or wipe it yourself.`,
  );
}

async function isZero(device: string): Promise<boolean> {
  await using file = await open(device, 'r');
  const sizeBytes = await deviceBytes(device);
  for (const position of [0, Math.max(0, sizeBytes - BLANK_CHECK_BYTES)]) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(BLANK_CHECK_BYTES), 0, BLANK_CHECK_BYTES, position);
    if (buffer.subarray(0, bytesRead).some((byte) => byte !== 0)) return false;
  }
  return true;
}

async function deviceBytes(device: string): Promise<number> {
  const { stdout } = await run('blockdev', ['--getsize64', device], { timeout: TOOL_TIMEOUT_MS });
  return Number(stdout);
}

export function ignoreNoEntry(thrown: unknown): undefined {
  if (errnoOf(thrown) !== 'ENOENT') throw thrown;
}
