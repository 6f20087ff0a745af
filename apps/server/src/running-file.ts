/**
 * What `space down` finds the platform by: `running` in the data folder, one line of pid, start time, boot and URL. A pid
 * alone could be another process by now; the three together are this one and no other. `url` stays when it has stopped:
 * `space uninstall` knows by it which client configuration is this platform's.
 */
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export async function tellRunning(dataDir: string, url: string): Promise<void> {
  const path = join(dataDir, 'running');
  const boot = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
  await writeFile(`${path}.new`, `${process.pid} ${await startTime()} ${boot} ${url}\n`, { mode: 0o644 });
  await writeFile(join(dataDir, 'url'), `${url}\n`, { mode: 0o644 });
  await rename(`${path}.new`, path);
}

export async function tellStopped(dataDir: string): Promise<void> {
  await rm(join(dataDir, 'running'), { force: true });
}

/** In ticks since boot: field 22 of the line, which is the 20th behind the name in parentheses. */
async function startTime(): Promise<string> {
  const line = await readFile('/proc/self/stat', 'utf8');
  const field = line.slice(line.lastIndexOf(')') + 2).split(' ')[19];
  if (field === undefined) throw new Error('/proc/self/stat has too few fields.');
  return field;
}
