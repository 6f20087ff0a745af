/** Paths are bytes, here as in a sandbox: text where they are UTF-8. */
import { isUtf8 } from 'node:buffer';
import type { FilePath } from '@space/sdk';

const SLASH = Buffer.from('/');

/** For Node, which takes text or a Buffer. */
export function byteSafe(path: FilePath): string | Buffer {
  return typeof path === 'string' ? path : Buffer.from(path.buffer, path.byteOffset, path.length);
}

/** For the SDK: text where it is UTF-8. */
export function byteName(name: Buffer): FilePath {
  return isUtf8(name) ? name.toString() : name;
}

export function joinBytes(directory: FilePath, name: FilePath): FilePath {
  const [before, after] = [Buffer.from(byteSafe(directory)), Buffer.from(byteSafe(name))];
  const separator = before.at(-1) === SLASH[0] ? Buffer.alloc(0) : SLASH;
  return byteName(Buffer.concat([before, separator, after]));
}

/** To be shown to a person. */
export function nameOf(path: FilePath): string {
  return typeof path === 'string' ? path : Buffer.from(byteSafe(path)).toString('latin1');
}

/** Whether a name from a sandbox can be the last part of a path here, and nothing more than that. */
export function isPlainName(name: FilePath): boolean {
  const text = Buffer.from(byteSafe(name)).toString('latin1');
  return text !== '' && text !== '.' && text !== '..' && !/[/\0]/.test(text);
}
