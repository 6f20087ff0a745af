/** Loop devices: a file seen as a block device. Whether one is there is always read from the kernel, never remembered. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { AppError } from '@space/core';
import { errnoOf } from './failures.ts';

const run = promisify(execFile);
const TOOL_TIMEOUT_MS = 30_000;
/** Two processes that attach at once can pick the same free device; the loser tries again. */
const ATTACH_ATTEMPTS = 5;
const DETACH_WAIT_MS = 5_000;
const DETACH_POLL_MS = 20;

/** The devices on which this very file is attached. `file` has no symbolic links in it. */
export async function loopsOf(file: string): Promise<readonly string[]> {
  const names = (await readdir('/sys/block')).filter((name) => name.startsWith('loop'));
  const files = await Promise.all(names.map(backingFileOf));
  return names.filter((_, index) => files[index] === file).map((name) => `/dev/${name}`);
}

/** A deleted file's name ends with " (deleted)", so it never equals that of its successor. */
async function backingFileOf(name: string): Promise<string | undefined> {
  try {
    return (await readFile(`/sys/block/${name}/loop/backing_file`, 'utf8')).trimEnd();
  } catch (thrown) {
    // No file is attached, or it is detached at this moment.
    if (['ENOENT', 'ENXIO', 'ENODEV'].includes(errnoOf(thrown) ?? '')) return undefined;
    throw thrown;
  }
}

/** Direct I/O, so that the host does not cache everything twice; 4 KiB sectors let it be direct on every host disk. */
export async function attachLoop(file: string): Promise<string> {
  const variants = [['--direct-io=on', '--sector-size', '4096'], ['--direct-io=on'], []];
  let last: unknown;
  for (const options of variants) {
    for (let attempt = 0; attempt < ATTACH_ATTEMPTS; attempt += 1) {
      try {
        const { stdout } = await run('losetup', ['--find', '--show', ...options, file], { timeout: TOOL_TIMEOUT_MS });
        return stdout.trim();
      } catch (thrown) {
        last = thrown;
        if (!/busy/i.test(String(thrown))) break;
      }
    }
  }
  throw new AppError('unavailable', `No loop device could be attached to ${file}.`, { cause: last });
}

/** Tells the kernel that the file has grown. */
export async function refreshLoopSize(device: string): Promise<void> {
  await run('losetup', ['--set-capacity', device], { timeout: TOOL_TIMEOUT_MS });
}

/**
 * Detaches every device of the file and returns when the kernel shows none. A mount in another mount namespace keeps one alive,
 * and then this throws: the vault is not closed while anything can still reach it.
 */
export async function detachLoops(file: string): Promise<void> {
  const deadline = performance.now() + DETACH_WAIT_MS;
  for (;;) {
    const devices = await loopsOf(file);
    if (devices.length === 0) return;
    // A failure here is judged by whether the device is gone at the next look.
    await Promise.allSettled(
      devices.map((device) => run('losetup', ['--detach', device], { timeout: TOOL_TIMEOUT_MS })),
    );
    if ((await loopsOf(file)).length === 0) return;
    if (performance.now() > deadline) {
      throw new AppError('unavailable', `${devices.join(', ')} is still in use, perhaps in another mount namespace.`);
    }
    await sleep(DETACH_POLL_MS);
  }
}
