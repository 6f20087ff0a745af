/**
 * System calls that Node does not offer, called in libc through FFI: no process is spawned for a snapshot or a
 * lock. Every call that can block runs on libuv's thread pool, so the event loop never waits for a disk.
 *
 * A failed call is a `SystemError` that looks like Node's own (`code`, `errno`, `syscall`), so that one table in
 * `failures.ts` gives each errno its meaning.
 */
import koffi from 'koffi';

const libc = koffi.load('libc.so.6');
// `ioctl` is variadic in C; on Linux x86-64 and arm64 its third argument travels like a fixed one.
const ioctlFunction = libc.func('int ioctl(int fd, unsigned long request, void *argument)');
const syncRangeFunction = libc.func('int sync_file_range(int fd, long offset, long length, unsigned int flags)');
const mmapFunction = libc.func('void *mmap(void *near, size_t length, int access, int kind, int fd, long offset)');
const munmapFunction = libc.func('int munmap(void *mapping, size_t length)');
const mincoreFunction = libc.func('int mincore(void *mapping, size_t length, _Out_ uint8_t *pages)');
const fallocateFunction = libc.func('int fallocate(int fd, int mode, long offset, long length)');
const fadviseFunction = libc.func('int posix_fadvise(int fd, long offset, long length, int advice)');
const flockFunction = libc.func('int flock(int fd, int operation)');

/** `EWOULDBLOCK` is another name of `EAGAIN`. */
const ERRNO_NAMES = new Map(
  Object.entries(koffi.os.errno)
    .filter(([name]) => name !== 'EWOULDBLOCK')
    .map(([name, value]) => [value, name]),
);

class SystemError extends Error {
  override readonly name = 'SystemError';
  readonly errno: number;
  readonly code: string;
  readonly syscall: string;

  constructor(syscall: string, errno: number, subject: string) {
    const code = ERRNO_NAMES.get(errno) ?? `errno ${errno}`;
    super(`${code}: ${syscall} ${subject}`);
    this.errno = errno;
    this.code = code;
    this.syscall = syscall;
  }
}

type Argument = number | string | Uint8Array | null;

/** Runs one libc function on the thread pool. `subject` says in errors what it was about. */
function callAsync(
  called: ReturnType<typeof libc.func>,
  syscall: string,
  subject: string,
  args: Argument[],
): Promise<void> {
  return new Promise((resolve, reject) => {
    called.async(...args, (failure: unknown, result: number) => {
      // Read first: koffi hands over the errno of the worker thread only at the start of this callback.
      const errno = koffi.errno();
      if (failure) reject(failure);
      else if (result < 0) reject(new SystemError(syscall, errno, subject));
      else resolve();
    });
  });
}

/** `argument` is read and written in place; `name` is the ioctl's, for errors. */
export function ioctl(fd: number, name: string, request: number, argument: Uint8Array | null, subject: string) {
  return callAsync(ioctlFunction, name, subject, [fd, request, argument]);
}

const WRITE = 2;
/** Wait for what is being written, write what is dirty, wait for that. */
const WAIT_WRITE_WAIT = 1 | WRITE | 4;

/** Writes out the file's dirty pages. Durable they are only with the next commit of the file system. */
export function writeOut(fd: number, path: string): Promise<void> {
  return callAsync(syncRangeFunction, 'sync_file_range', path, [fd, 0, 0, WAIT_WRITE_WAIT]);
}

/** Has the file's dirty pages written out, and does not wait for it. */
export function beginWriteOut(fd: number, path: string): Promise<void> {
  return callAsync(syncRangeFunction, 'sync_file_range', path, [fd, 0, 0, WRITE]);
}

const KEEP_SIZE_AND_PUNCH = 1 | 2;

/** The part of the file reads as zeros, and takes no room. */
export function punchHole(fd: number, offset: number, length: number): Promise<void> {
  return callAsync(fallocateFunction, 'fallocate', `descriptor ${fd}`, [fd, KEEP_SIZE_AND_PUNCH, offset, length]);
}

export const PAGE_BYTES = 4096;
const READ_ONLY = 1;
const SHARED_MAPPING = 1;
const MAP_FAILED = 2n ** 64n - 1n;

/**
 * For each page of a part of the file, 1 where it is in the page cache, else 0. Nothing is read for it: to ask by a read
 * that must not wait (`RWF_NOWAIT`) sets the kernel's read-ahead going. `offset` is that of a page. Who neither owns the
 * file nor may write to it is told that everything is there.
 */
export function cachedPages(fd: number, offset: number, length: number): Uint8Array {
  const mapping: unknown = mmapFunction(null, length, READ_ONLY, SHARED_MAPPING, fd, offset);
  if (koffi.address(mapping) === MAP_FAILED) throw new SystemError('mmap', koffi.errno(), `descriptor ${fd}`);
  try {
    const pages = new Uint8Array(Math.ceil(length / PAGE_BYTES));
    if (mincoreFunction(mapping, length, pages) < 0)
      throw new SystemError('mincore', koffi.errno(), `descriptor ${fd}`);
    return pages.map((page) => page & 1);
  } finally {
    munmapFunction(mapping, length);
  }
}

const DONT_NEED = 4;

/** What was read need not stay in the page cache. An advice: it may. */
export function forgetCached(fd: number, offset: number, length: number): void {
  fadviseFunction(fd, offset, length, DONT_NEED);
}

const LOCK_EXCLUSIVE_NOW = 2 | 4;

/**
 * Takes the advisory lock of an open file, or says that someone else has it. The kernel drops it with the last
 * descriptor, hence also at `kill -9`; children do not inherit Node's descriptors.
 */
export function tryLock(fd: number): boolean {
  if (flockFunction(fd, LOCK_EXCLUSIVE_NOW) === 0) return true;
  const errno = koffi.errno();
  if (ERRNO_NAMES.get(errno) === 'EAGAIN') return false;
  throw new SystemError('flock', errno, `descriptor ${fd}`);
}
