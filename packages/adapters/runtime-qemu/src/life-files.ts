/**
 * How a VMM that already runs in its jail gets the files of its life. No path leads to them from in there: they are
 * opened here and travel over its control connection.
 *
 * QEMU's commands for passed files work only once the machine is made, and the machine is made of these files. But any
 * command can carry them: QEMU's connection holds them open until the next ones come. Then `/fd/N`, the folder of its own
 * descriptors, opens them a second time, as the VMM's user: hence they are given to that user.
 */
import { constants, type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { VmSpec } from '@space/core';
import type { Qmp } from './qmp.ts';

/** As the VMM sees them. */
export interface InsideFiles {
  readonly disk: string;
  readonly memory: string;
}

export interface Owner {
  readonly uid: number;
  readonly pid: number;
}

const MIB = 1024 * 1024;

/** Checks the life's files, gives them to the VMM's user and to nobody else, and passes them. */
export async function passFiles(qmp: Qmp, { files, size }: VmSpec, vmm: Owner): Promise<InsideFiles> {
  await using disk = await openOwn(files.disk, vmm.uid);
  await using memory = await openOwn(files.memory, vmm.uid);
  const { size: length } = await memory.stat();
  if (length !== size.memoryMib * MIB)
    throw new Error(`The memory file has ${length} bytes, not ${size.memoryMib} MiB`);
  await qmp.executeWithFiles('query-status', undefined, [disk.fd, memory.fd]);
  return await findPassed(vmm.pid, { disk, memory });
}

/** A link or anything but a file is refused: what is opened is what was meant. */
async function openOwn(path: string, uid: number): Promise<FileHandle> {
  const file = await open(path, constants.O_RDWR | constants.O_NOFOLLOW);
  try {
    const found = await file.stat();
    if (!found.isFile()) throw new Error(`${path} is not a file`);
    if (found.uid !== uid) await file.chown(uid, uid);
    if ((found.mode & 0o777) !== 0o600) await file.chmod(0o600);
    return file;
  } catch (thrown) {
    await file.close();
    throw thrown;
  }
}

/** The number that each file has in the VMM. */
async function findPassed(pid: number, passed: Readonly<Record<keyof InsideFiles, FileHandle>>): Promise<InsideFiles> {
  const folder = `/proc/${pid}/fd`;
  const [numbers, disk, memory] = await Promise.all([readdir(folder), passed.disk.stat(), passed.memory.stat()]);
  const open = await Promise.all(
    numbers.map(async (number) => ({ number, found: await stat(join(folder, number)).catch(() => null) })),
  );
  const insideOf = ({ dev, ino }: { dev: number; ino: number }): string => {
    const held = open.find(({ found }) => found?.dev === dev && found.ino === ino);
    if (!held) throw new Error('The VMM does not hold the files that it was given');
    return `/fd/${held.number}`;
  };
  return { disk: insideOf(disk), memory: insideOf(memory) };
}
