/**
 * Files in the guest, streamed both ways. A written file is believed only when the digest that the guest computed is the
 * one computed here, so a success is a read-back.
 */
import { createHash } from 'node:crypto';
import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import {
  AppError,
  type FileAttributes,
  type FileMove,
  type FilePath,
  type FileRange,
  type FileStatus,
  type Following,
  type GuestBytes,
  guestBytes,
  type ListedFile,
  type NewDirectory,
  type NewFile,
  type Xattr,
} from '@space/core';
import { Files, type ReadReply, type WriteRequest_OpenSchema } from '@space/guest-proto';
import { Call, callOnce } from './call.ts';
import type { Channel } from './channel.ts';
import { brokenContract } from './errors.ts';
import type { Method } from './exchange.ts';
import type { Limits } from './limits.ts';
import { fileStatusOf, listedFileOf, opaqueBytes, pathBytes, safeNumber, wireNumber } from './wire.ts';

interface Context {
  readonly channel: Channel;
  readonly limits: Limits;
}

const PART_BYTES = 64 * 1024;
/** An entry has at least some bytes, and a part of a listing at most 64 KiB. */
const MAX_LIST_ENTRIES = 8192;
const MAX_XATTR_NAME_BYTES = 255;
const MAX_XATTR_BYTES = 64 * 1024;
const MAX_MODE = 0o7777;

/** The body holds a stream open at the agent until it is read to its end, left, or aborted by the signal. */
export async function readFile(
  { channel, limits }: Context,
  file: FileRange,
  signal?: AbortSignal,
): Promise<{ status: FileStatus; body: AsyncIterable<Uint8Array> }> {
  const length = wireNumber('The length', file.length ?? Number.MAX_SAFE_INTEGER);
  const request = {
    ...fileRequest(file),
    offset: wireNumber('The offset', file.offset ?? 0),
    // Older agents take 0 for all of it. For an empty range one byte is asked for, and not read.
    ...(file.length === undefined ? {} : { length: length || 1n }),
  };
  const call = new Call(channel, signal);
  try {
    call.expectWithin(limits.stallMs);
    const parts = channel.serverStream(Files.method.read, request, call.signal);
    const first = await parts.next();
    if (first.done || first.value.part.case !== 'status') throw brokenContract('a file is read without its status');
    const status = fileStatusOf(first.value.part.value);
    call.rest();
    if (length === 0n) call.end();
    return { status, body: length === 0n ? nothing() : new FileBody(call, limits.stallMs, parts, length) };
  } catch (thrown) {
    const error = await call.failure('file', thrown);
    call.end();
    throw error;
  }
}

async function* nothing(): AsyncGenerator<Uint8Array, void, undefined> {}

/** The bytes of a file being read, once. By hand and not a generator, since one that was never started cannot clean up. */
class FileBody implements AsyncIterableIterator<Uint8Array> {
  readonly #call: Call;
  readonly #stallMs: number;
  readonly #parts: AsyncIterator<ReadReply>;
  #left: bigint;
  #over = false;

  constructor(call: Call, stallMs: number, parts: AsyncIterator<ReadReply>, length: bigint) {
    this.#call = call;
    this.#stallMs = stallMs;
    this.#parts = parts;
    this.#left = length;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    if (this.#over) return { done: true, value: undefined };
    try {
      this.#call.expectWithin(this.#stallMs);
      const next = await this.#parts.next();
      this.#call.rest();
      if (next.done) return await this.return();
      return { done: false, value: this.#take(next.value) };
    } catch (thrown) {
      const error = await this.#call.failure('file', thrown);
      await this.return();
      throw error;
    }
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.#over = true;
    this.#call.end();
    return { done: true, value: undefined };
  }

  #take({ part }: ReadReply): Uint8Array {
    if (part.case !== 'data') throw brokenContract('a part of a file is not data');
    this.#left -= BigInt(part.value.length);
    if (this.#left < 0n) throw brokenContract('more of a file came than was asked for');
    return part.value;
  }
}

export async function writeFile(
  { channel, limits }: Context,
  file: NewFile,
  body: AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<{ sizeBytes: number; sha256: string }> {
  const open = { ...fileRequest(file), ...modeField(file.mode), ifAbsent: file.ifAbsent ?? false };
  const call = new Call(channel, signal);
  const upload = new Upload(call, limits, body, file.sha256);
  try {
    await call.ready();
    const reply = await channel.clientStream(Files.method.write, upload.messages(open), call.signal);
    call.rest();
    const sizeBytes = safeNumber('the size of a written file', reply.size);
    const sha256 = Buffer.from(reply.sha256).toString('hex');
    if (!upload.committed) throw brokenContract('a file was called written before its end');
    if (sizeBytes !== upload.sizeBytes) throw brokenContract(`${sizeBytes} bytes were written of ${upload.sizeBytes}`);
    if (sha256 !== upload.sha256) throw brokenContract('the bytes written are not the bytes sent');
    return { sizeBytes, sha256 };
  } catch (thrown) {
    if (upload.bodyFailure) throw upload.bodyFailure.reason;
    throw await call.failure('file', thrown);
  } finally {
    call.end();
  }
}

/** The messages of a write, made as the transport asks for them, so that the guest's pace is the body's pace. */
class Upload {
  sizeBytes = 0;
  committed = false;
  /** Of the whole body, once it was committed. */
  sha256 = '';
  /** What the body threw; the stream is then aborted without its commit. */
  bodyFailure: { readonly reason: unknown } | undefined;
  readonly #call: Call;
  readonly #limits: Limits;
  readonly #body: AsyncIterable<Uint8Array>;
  readonly #hash = createHash('sha256');
  readonly #expected: string | undefined;

  constructor(call: Call, limits: Limits, body: AsyncIterable<Uint8Array>, expected: string | undefined) {
    this.#call = call;
    this.#limits = limits;
    this.#body = body;
    this.#expected = expected?.toLowerCase();
  }

  async *messages(open: MessageInitShape<typeof WriteRequest_OpenSchema>) {
    yield* this.#send({ part: { case: 'open', value: open } } as const);
    for await (const chunk of this.#watchedBody()) {
      this.#hash.update(chunk);
      this.sizeBytes += chunk.length;
      for (let at = 0; at < chunk.length; at += PART_BYTES) {
        yield* this.#send({ part: { case: 'data', value: chunk.subarray(at, at + PART_BYTES) } } as const);
      }
    }
    const digest = this.#hash.digest();
    this.sha256 = digest.toString('hex');
    this.#check();
    this.committed = true;
    this.#call.expectWithin(this.#limits.commitMs);
    yield { part: { case: 'commit', value: { sha256: digest } } } as const;
  }

  /** A body that is not the announced one is never committed. */
  #check(): void {
    if (this.#expected === undefined || this.#expected === this.sha256) return;
    const reason = new AppError('digest_mismatch', `The body has the SHA-256 ${this.sha256}.`);
    this.bodyFailure = { reason };
    throw reason;
  }

  /** The body, its own failures kept apart from those that the transport throws into `messages`. */
  async *#watchedBody(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield* this.#body;
    } catch (thrown) {
      this.bodyFailure = { reason: thrown };
      throw thrown;
    }
  }

  /** While a message is with the transport we wait for the agent; after it, for the body. */
  *#send<T>(message: T): Generator<T, void, undefined> {
    this.#call.expectWithin(this.#limits.stallMs);
    yield message;
    this.#call.rest();
  }
}

function modeField(mode: number | undefined): { mode?: number } {
  if (mode === undefined) return {};
  if (!Number.isInteger(mode) || mode < 0 || mode > MAX_MODE) {
    throw new AppError('bad_request', 'The mode must be permission bits from 0 to 07777.');
  }
  return { mode };
}

export async function stat(context: Context, file: FilePath & Following): Promise<FileStatus> {
  const request = { ...fileRequest(file), noFollow: noFollow(file) };
  return fileStatusOf((await once(context, Files.method.stat, request, true)).status);
}

export async function* list(
  { channel, limits }: Context,
  directory: FilePath & { readonly depth?: number },
): AsyncGenerator<ListedFile, void, undefined> {
  const request = { ...fileRequest(directory), depth: directory.depth ?? 1 };
  const call = new Call(channel);
  try {
    call.expectWithin(limits.replyMs);
    for await (const { entries } of channel.serverStream(Files.method.list, request, call.signal)) {
      call.rest();
      if (entries.length > MAX_LIST_ENTRIES) throw brokenContract('a part of a listing is too long');
      for (const entry of entries) yield listedFileOf(entry);
      call.expectWithin(limits.replyMs);
    }
  } catch (thrown) {
    throw await call.failure('file', thrown);
  } finally {
    call.end();
  }
}

export async function makeDirectory(context: Context, directory: NewDirectory): Promise<FileStatus> {
  const { parents = false } = directory;
  const request = { ...fileRequest(directory), parents, ...modeField(directory.mode) };
  return fileStatusOf((await once(context, Files.method.makeDirectory, request)).status);
}

export async function moveFile(context: Context, { from, to, user = '', overwrite = true }: FileMove): Promise<void> {
  const request = { from: pathBytes(from), to: pathBytes(to), user, noReplace: !overwrite };
  await once(context, Files.method.move, request);
}

export async function removeFile(
  { channel, limits }: Context,
  file: FilePath & { readonly recursive?: boolean },
  signal?: AbortSignal,
): Promise<number> {
  const request = { ...fileRequest(file), recursive: file.recursive ?? false };
  const call = new Call(channel, signal);
  let removed: bigint | undefined;
  try {
    await call.ready();
    call.expectWithin(limits.replyMs);
    for await (const reply of channel.serverStream(Files.method.remove, request, call.signal)) {
      call.expectWithin(limits.replyMs);
      if (reply.done) removed = reply.removed;
    }
    if (removed === undefined) throw brokenContract('a removal ended without its count');
    return safeNumber('a count of removed entries', removed);
  } catch (thrown) {
    throw await call.failure('file', thrown);
  } finally {
    call.end();
  }
}

export async function setAttributes(context: Context, attributes: FileAttributes): Promise<FileStatus> {
  const { owner = '', group = '' } = attributes;
  const mode = modeField(attributes.mode);
  const request = { ...fileRequest(attributes), noFollow: noFollow(attributes), ...mode, owner, group };
  return fileStatusOf((await once(context, Files.method.setAttributes, request)).status);
}

export async function makeSymlink(
  context: Context,
  link: FilePath & { readonly target: GuestBytes },
): Promise<FileStatus> {
  const request = { ...fileRequest(link), target: pathBytes(link.target, 'target') };
  return fileStatusOf((await once(context, Files.method.makeSymlink, request)).status);
}

export async function xattrs(context: Context, file: FilePath & Following): Promise<readonly GuestBytes[]> {
  const request = { ...fileRequest(file), noFollow: noFollow(file) };
  const { names } = await once(context, Files.method.listXattrs, request, true);
  if (names.some((name) => name.length > MAX_XATTR_NAME_BYTES)) throw brokenContract('a name is too long');
  return names.map(guestBytes);
}

export async function xattr(context: Context, attribute: Xattr): Promise<Uint8Array> {
  const { value } = await once(context, Files.method.getXattr, xattrRequest(attribute), true);
  if (value.length > MAX_XATTR_BYTES) throw brokenContract('an attribute is too long');
  return value;
}

export async function setXattr(context: Context, attribute: Xattr, value: Uint8Array): Promise<void> {
  if (value.length > MAX_XATTR_BYTES) {
    throw new AppError('bad_request', `An extended attribute has at most ${MAX_XATTR_BYTES} bytes.`);
  }
  await once(context, Files.method.setXattr, { attribute: xattrRequest(attribute), value });
}

export async function removeXattr(context: Context, attribute: Xattr): Promise<void> {
  await once(context, Files.method.removeXattr, xattrRequest(attribute));
}

function once<I extends DescMessage, O extends DescMessage>(
  { channel, limits }: Context,
  method: Method<I, O>,
  request: MessageInitShape<I>,
  repeatable = false,
): Promise<MessageShape<O>> {
  const options = { kind: 'file', limitMs: limits.replyMs, repeatable } as const;
  return callOnce(channel, options, (signal) => channel.unary(method, request, signal));
}

function fileRequest(file: FilePath) {
  return { path: pathBytes(file.path), user: file.user ?? '' };
}

function xattrRequest(attribute: Xattr) {
  const name = opaqueBytes('The name of the attribute', attribute.name);
  if (name.length > MAX_XATTR_NAME_BYTES) throw new AppError('bad_request', 'The name of the attribute is too long.');
  return { ...fileRequest(attribute), noFollow: noFollow(attribute), name };
}

function noFollow({ follow = true }: Following): boolean {
  return !follow;
}
