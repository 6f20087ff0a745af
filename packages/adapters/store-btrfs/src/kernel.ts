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
const preadv2Function = libc.func('long preadv2(int fd, const uint8_t *parts, int count, long offset, int flags)');
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

/** Wait for what is being written, write what is dirty, wait for that. */
const WAIT_WRITE_WAIT = 1 | 2 | 4;

/** Writes out the file's dirty pages. Durable they are only with the next commit of the file system. */
export function writeOut(fd: number, path: string): Promise<void> {
  return callAsync(syncRangeFunction, 'sync_file_range', path, [fd, 0, 0, WAIT_WRITE_WAIT]);
}

const KEEP_SIZE_AND_PUNCH = 1 | 2;

/** The part of the file reads as zeros, and takes no room. */
export function punchHole(fd: number, offset: number, length: number): Promise<void> {
  return callAsync(fallocateFunction, 'fallocate', `descriptor ${fd}`, [fd, KEEP_SIZE_AND_PUNCH, offset, length]);
}

const ONLY_IF_CACHED = 8;
/** `struct iovec`, and behind it the byte that it leads to: in one buffer, so that what is written to lives as long. */
const IOVEC_BYTES = 16;
const PART = Buffer.alloc(IOVEC_BYTES + 1);
PART.writeBigUInt64LE(koffi.address(PART) + BigInt(IOVEC_BYTES), 0);
PART.writeBigUInt64LE(1n, 8);

/** Whether the byte can be read without the disk. Does not block. */
export function isCached(fd: number, offset: number): boolean {
  return preadv2Function(fd, PART, 1, offset, ONLY_IF_CACHED) === 1;
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
