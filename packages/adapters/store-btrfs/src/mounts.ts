/** What is mounted where, as the kernel tells it. */
import { readFile } from 'node:fs/promises';

export interface Mount {
  readonly target: string;
  readonly type: string;
  readonly source: string;
  /** False also when the file system itself turned read-only after a failure. */
  readonly writable: boolean;
}

/** The mounts of this process's namespace, oldest first. */
export async function readMounts(): Promise<readonly Mount[]> {
  return parseMounts(await readFile('/proc/self/mountinfo', 'utf8'));
}

/** Format: `id parent major:minor root target options tag… - type source super-options`. */
export function parseMounts(mountinfo: string): readonly Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , , target, options] = before.split(' ');
    const [type, source, superOptions] = after.split(' ');
    if (!target || !options || !type || !source || !superOptions) return [];
    const writable = [options, superOptions].every((list) => list.split(',').includes('rw'));
    return [{ target: decodeOctal(target), type, source: decodeOctal(source), writable }];
  });
}

/** Spaces and the like are written as `\040`. */
function decodeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
