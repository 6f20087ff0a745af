/**
 * System calls that Node does not offer, called in libc through FFI: handing open files to another process. None of them
 * blocks.
 */
import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import koffi from 'koffi';

const libc = koffi.load('libc.so.6');
const socketFunction = libc.func('int socket(int domain, int type, int protocol)');
const connectFunction = libc.func('int connect(int fd, const uint8_t *address, unsigned int length)');
const socketpairFunction = libc.func('int socketpair(int domain, int type, int protocol, _Out_ int *fds)');
const sendmsgFunction = libc.func('long sendmsg(int fd, const uint8_t *message, int flags)');

const AF_UNIX = 1;
const STREAM = 1 | 0o4000 | 0o2000000; // SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
const MSG_DONTWAIT_NOSIGNAL = 0x40 | 0x4000;

const ERRNO_NAMES = new Map(Object.entries(koffi.os.errno).map(([name, value]) => [value, name]));

function failure(syscall: string): Error {
  const errno = koffi.errno();
  const code = errno === koffi.os.errno['EAGAIN'] ? 'EAGAIN' : (ERRNO_NAMES.get(errno) ?? `errno ${errno}`);
  return Object.assign(new Error(`${code}: ${syscall}`), { code, errno, syscall });
}

/** A connected unix socket over which open files can be sent. */
export interface FileSocket {
  readonly socket: Socket;
  /** The connection itself, to be handed to another process. Throws when it is closed. */
  descriptor(): number;
  /** Sends the bytes and, with the first of them, the files. Nothing else must be waiting to be written. */
  send(bytes: Uint8Array, fds: readonly number[]): void;
}

export function connectForFiles(path: string): FileSocket {
  const fd = socketFunction(AF_UNIX, STREAM, 0);
  if (fd < 0) throw failure('socket');
  const address = Buffer.alloc(2 + Buffer.byteLength(path) + 1);
  address.writeUInt16LE(AF_UNIX, 0);
  address.write(path, 2);
  if (connectFunction(fd, address, address.length) < 0) {
    const thrown = failure('connect');
    closeSync(fd);
    throw thrown;
  }
  const socket = new Socket({ fd, readable: true, writable: true });
  const requireOpen = (): void => {
    if (socket.destroyed) throw new Error('The connection is closed');
  };
  return {
    socket,
    descriptor() {
      requireOpen();
      return fd;
    },
    send(bytes, fds) {
      requireOpen();
      if (socket.writableLength > 0) throw new Error('The connection is busy');
      sendWithFiles(fd, bytes, fds);
    },
  };
}

/** Two ends of one connection: a stream for us, and a descriptor that the caller sends away and closes. */
export function socketPair(): { readonly ours: Socket; readonly theirs: number } {
  const fds = [0, 0];
  if (socketpairFunction(AF_UNIX, STREAM, 0, fds) < 0) throw failure('socketpair');
  const [ours = -1, theirs = -1] = fds;
  return { ours: new Socket({ fd: ours, readable: true, writable: true }), theirs };
}

/** Sizes of `struct msghdr`, `iovec` and `cmsghdr` on 64-bit Linux. */
const MESSAGE_BYTES = 56;
const VECTOR_BYTES = 16;
const CONTROL_BYTES = 16;

/** One allocation holds all that the call reads, so that what is passed to it keeps the rest from being collected. */
function sendWithFiles(fd: number, bytes: Uint8Array, fds: readonly number[]): void {
  const control = MESSAGE_BYTES + VECTOR_BYTES;
  const controlLength = CONTROL_BYTES + fds.length * 4;
  const controlSpace = Math.ceil(controlLength / 8) * 8;
  const memory = Buffer.alloc(control + controlSpace + bytes.length);
  const start = koffi.address(memory);
  memory.set(bytes, control + controlSpace);
  memory.writeBigUInt64LE(start + BigInt(control + controlSpace), MESSAGE_BYTES);
  memory.writeBigUInt64LE(BigInt(bytes.length), MESSAGE_BYTES + 8);
  memory.writeBigUInt64LE(start + BigInt(MESSAGE_BYTES), 16);
  memory.writeBigUInt64LE(1n, 24);
  if (fds.length > 0) {
    memory.writeBigUInt64LE(start + BigInt(control), 32);
    memory.writeBigUInt64LE(BigInt(controlSpace), 40);
    memory.writeBigUInt64LE(BigInt(controlLength), control);
    memory.writeInt32LE(SOL_SOCKET, control + 8);
    memory.writeInt32LE(SCM_RIGHTS, control + 12);
    for (const [index, passed] of fds.entries()) memory.writeInt32LE(passed, control + CONTROL_BYTES + index * 4);
  }
  const sent = sendmsgFunction(fd, memory, MSG_DONTWAIT_NOSIGNAL);
  if (sent < 0) throw failure('sendmsg');
  if (sent !== bytes.length) throw new Error(`sendmsg took ${sent} of ${bytes.length} bytes`);
}
