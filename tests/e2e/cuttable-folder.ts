/**
 * A folder of which one can say what a power cut would have left of it. It is a subvolume of a file system of its own: a
 * snapshot of that is all that was written by one instant, of the vault's backing file and of the database alike.
 */
import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const SIZE_BYTES = 48 * 2 ** 30;

export interface CuttableFolder extends AsyncDisposable {
  readonly folder: string;
  /** Another folder, with what lies in the first at this instant. */
  cut(): Promise<string>;
}

export async function makeCuttableFolder(): Promise<CuttableFolder> {
  const place = await mkdtemp('/var/tmp/space-power-');
  // The database is another user's.
  await chmod(place, 0o711);
  const [image, mounted] = [join(place, 'disk.img'), join(place, 'mnt')];
  await writeFile(image, '');
  await truncate(image, SIZE_BYTES);
  await mkdir(mounted);
  await run('mkfs.btrfs', ['--quiet', image]);
  await run('mount', ['-o', 'loop', image, mounted]);
  const folder = join(mounted, 'data');
  let cuts = 0;
  try {
    await run('btrfs', ['subvolume', 'create', folder]);
  } catch (thrown) {
    await run('umount', [mounted]);
    throw thrown;
  }
  return {
    folder,
    async cut() {
      cuts += 1;
      const at = join(mounted, `cut-${cuts}`);
      await run('btrfs', ['subvolume', 'snapshot', folder, at]);
      return at;
    },
    async [Symbol.asyncDispose]() {
      await run('umount', [mounted]);
      await rm(place, { recursive: true, force: true });
    },
  };
}
