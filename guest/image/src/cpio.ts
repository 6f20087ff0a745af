/**
 * Writes a cpio archive in the `newc` format, which the kernel unpacks as its initramfs. Not compressed: the kernel
 * would unpack it under emulation. The same entries give the same bytes: owner root, time 0, inode numbers counted.
 *
 * Source: Documentation/driver-api/early-userspace/buffer-format.rst in the kernel.
 */
export interface CpioFile {
  readonly path: string;
  readonly mode: number;
  readonly content: Buffer;
}

const FILE_TYPE = 0o100000;
const FOLDER_TYPE = 0o040000;
const TRAILER = 'TRAILER!!!';
/** The kernel and the cpio tool read in blocks of this size. */
const BLOCK = 512;

export function writeCpio(files: readonly CpioFile[], folders: readonly string[] = []): Buffer {
  const parts: Buffer[] = [];
  let inode = 0;
  const add = (path: string, mode: number, content: Buffer): void => {
    inode += 1;
    parts.push(pad4(Buffer.from(header({ inode, mode, size: content.length, path }), 'latin1')), pad4(content));
  };
  for (const path of [...new Set([...folders, ...files.flatMap((file) => parents(file.path))])].sort()) {
    add(path, FOLDER_TYPE | 0o755, Buffer.alloc(0));
  }
  for (const file of files) add(checkPath(file.path), FILE_TYPE | file.mode, file.content);
  inode = -1;
  add(TRAILER, 0, Buffer.alloc(0));
  return pad(Buffer.concat(parts), BLOCK);
}

function header(entry: { inode: number; mode: number; size: number; path: string }): string {
  const links = (entry.mode & FOLDER_TYPE) !== 0 ? 2 : 1;
  const nameSize = Buffer.byteLength(entry.path) + 1;
  // inode, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
  const fields = [entry.inode, entry.mode, 0, 0, links, 0, entry.size, 0, 0, 0, 0, nameSize, 0];
  return `070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}${entry.path}\0`;
}

function checkPath(path: string): string {
  if (!/^[\x21-\x7e]+$/.test(path) || path.startsWith('/')) throw new Error(`Not a path for an archive: ${path}`);
  return path;
}

/** The folders above a path, outermost first. */
function parents(path: string): string[] {
  const names = path.split('/').slice(0, -1);
  return names.map((_name, i) => names.slice(0, i + 1).join('/'));
}

const pad4 = (buffer: Buffer): Buffer => pad(buffer, 4);

function pad(buffer: Buffer, block: number): Buffer {
  const missing = (block - (buffer.length % block)) % block;
  return missing === 0 ? buffer : Buffer.concat([buffer, Buffer.alloc(missing)]);
}
