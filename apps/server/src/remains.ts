/** What is left of a platform on this machine: how programs that promise to leave nothing behind check that they don't. */
import { readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';

/** Processes other than this one whose command line, working directory or memory map names one of the texts. */
export async function processesNaming(...texts: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)) {
    const read = (file: string) => readFile(join('/proc', pid, file), 'utf8').catch(() => '');
    const workingDirectory = await readlink(join('/proc', pid, 'cwd')).catch(() => '');
    const seen = [await read('cmdline'), await read('maps'), workingDirectory].join('\n');
    if (texts.some((text) => seen.includes(text))) found.push(`process ${pid}`);
  }
  return found;
}

export async function mountsNaming(text: string): Promise<string[]> {
  const lines = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n');
  return lines.filter((line) => line.includes(text)).map((line) => `mount ${line.split(' ')[4]}`);
}
