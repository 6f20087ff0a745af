/**
 * What makes a subvolume a point: a manifest of a known format, a device state with the digest that the manifest names,
 * and a disk and memory of the lengths that it names; a point of kind `disk` has no device state and no memory. Checked before
 * a point gets its name and at each use. The bytes of disk and memory themselves are guarded by Btrfs's checksums: a damaged
 * block is an I/O error when it is read.
 */
import { createHash } from 'node:crypto';
import { readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, kindOf, type PointManifest, parseManifest, type ReadPoint } from '@space/core';
import { writeBegun, writeSynced } from './durable.ts';
import { errnoOf } from './failures.ts';
import { DEVICE_STATE, DISK, MANIFEST, MEMORY } from './layout.ts';
import type { ReadThrough } from './read-through.ts';
import type { StepHook } from './steps.ts';

const BYTES_PER_MIB = 1024 * 1024;
/** Far above any device state or manifest of ours: larger is damage, and is not read into memory. */
const MAX_DEVICE_STATE_BYTES = 64 * BYTES_PER_MIB;
const MAX_MANIFEST_BYTES = BYTES_PER_MIB;
/** Errors of a point that lacks something, or whose blocks do not match their checksums. */
const DAMAGE: readonly string[] = ['ENOENT', 'ENOTDIR', 'EISDIR', 'EIO'];

/** Puts the files into the staged folder, durably; `snapshot_failed` if a later `readPointFiles` would refuse them. */
export async function writePointFiles(folder: string, point: ReadPoint, step: StepHook): Promise<void> {
  const { deviceState } = point;
  const text = await checkedText(folder, point);
  const writeManifest = () => writeSynced(join(folder, MANIFEST), text);
  if (deviceState === null) {
    // Those of the life: its memory as it went on, and the state that it had started from.
    for (const file of [MEMORY, DEVICE_STATE]) await rm(join(folder, file), { force: true });
    await writeManifest();
  } else {
    // Side by side, so that the file system writes its log once for both.
    await Promise.all([writeSynced(join(folder, DEVICE_STATE), deviceState), writeManifest()]);
  }
  await step('files_written');
}

/** Puts the files into the folder of a life whose snapshot is the point, which waits until they are on the disk. */
export async function layPointFiles(folder: string, point: ReadPoint & { readonly deviceState: Uint8Array }) {
  const text = await checkedText(folder, point);
  await Promise.all([
    writeBegun(join(folder, DEVICE_STATE), point.deviceState),
    writeBegun(join(folder, MANIFEST), text),
  ]);
}

/** The text of the manifest, once it is sure that the point can be read back. */
async function checkedText(folder: string, { manifest, deviceState }: ReadPoint): Promise<string> {
  const text = JSON.stringify(manifest, null, 2);
  try {
    parseManifest(text);
    checkDeviceState(manifest, deviceState);
    await checkLengths(folder, manifest);
  } catch (thrown) {
    throw new AppError('snapshot_failed', `${manifest.snapshotId} cannot be kept: ${reasonOf(thrown)}.`, {
      cause: thrown,
    });
  }
  return `${text}\n`;
}

/** What the manifest says, or `snapshot_bad` with the reason. */
export async function readManifestFile(folder: string, snapshotId: string): Promise<PointManifest> {
  return orBad(snapshotId, async () => {
    const manifest = parseManifest((await readBounded(join(folder, MANIFEST), MAX_MANIFEST_BYTES)).toString('utf8'));
    if (manifest.snapshotId !== snapshotId) throw new Error(`its manifest is that of ${manifest.snapshotId}`);
    return manifest;
  });
}

/** Everything verified, or `snapshot_bad` with the reason. Disk and memory are not read. */
export async function readPointFiles(folder: string, snapshotId: string): Promise<ReadPoint> {
  const manifest = await readManifestFile(folder, snapshotId);
  return orBad(snapshotId, async () => {
    const deviceState =
      kindOf(manifest) === 'disk' ? null : await readBounded(join(folder, DEVICE_STATE), MAX_DEVICE_STATE_BYTES);
    checkDeviceState(manifest, deviceState);
    await checkLengths(folder, manifest);
    return { manifest, deviceState };
  });
}

/** Disk and memory read through, too. */
export async function checkPointFiles(folder: string, snapshotId: string, reader: ReadThrough): Promise<void> {
  const { manifest } = await readPointFiles(folder, snapshotId);
  await orBad(snapshotId, async () => {
    for (const file of kindOf(manifest) === 'disk' ? [DISK] : [MEMORY, DISK]) await reader.check(join(folder, file));
  });
}

/** What the machine could not do just now (too many open files, say) is no damage of the point, and passes unchanged. */
async function orBad<T>(snapshotId: string, check: () => Promise<T>): Promise<T> {
  try {
    return await check();
  } catch (thrown) {
    const errno = errnoOf(thrown);
    const isPassing = thrown instanceof AppError || (errno !== undefined && !DAMAGE.includes(errno));
    if (isPassing) throw thrown;
    throw new AppError('snapshot_bad', `The snapshot ${snapshotId} cannot be used: ${reasonOf(thrown)}.`, {
      cause: thrown,
    });
  }
}

function reasonOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

async function readBounded(path: string, maxBytes: number): Promise<Buffer> {
  const { size } = await stat(path);
  if (size > maxBytes) throw new Error(`${path} has ${size} bytes, more than ${maxBytes}`);
  return await readFile(path);
}

function checkDeviceState({ deviceState: named }: PointManifest, deviceState: Uint8Array | null): void {
  if (named === null || deviceState === null) {
    if (named === deviceState) return;
    throw new Error('its device state is there where the manifest names none, or the other way round');
  }
  if (deviceState.byteLength !== named.sizeBytes) {
    throw new Error(`its device state has ${deviceState.byteLength} bytes where the manifest says ${named.sizeBytes}`);
  }
  const sha256 = createHash('sha256').update(deviceState).digest('hex');
  if (sha256 !== named.sha256) throw new Error('its device state does not have the digest that the manifest says');
}

async function checkLengths(folder: string, manifest: PointManifest): Promise<void> {
  const { size } = manifest;
  const expected = {
    [DISK]: size.diskMib * BYTES_PER_MIB,
    ...(kindOf(manifest) === 'disk' ? {} : { [MEMORY]: size.memoryMib * BYTES_PER_MIB }),
  };
  for (const [file, sizeBytes] of Object.entries(expected)) {
    const found = (await stat(join(folder, file))).size;
    if (found !== sizeBytes) throw new Error(`${file} has ${found} bytes where the manifest says ${sizeBytes}`);
  }
}
