/**
 * Files in the guest, streamed both ways. A written file is believed only when the digest that the guest computed is the
 * one computed here, so a success is a read-back.
 */
import { createHash } from 'node:crypto';
import { AppError, type FilePath, type FileRange, type FileStatus, type NewFile } from '@space/core';
import { Files, type ReadReply } from '@space/guest-proto';
import { Call, callOnce } from './call.ts';
import type { Channel } from './channel.ts';
import { brokenContract } from './errors.ts';
import type { Limits } from './limits.ts';
import { fileStatusOf, pathBytes, safeNumber, wireNumber } from './wire.ts';

interface Context {
  readonly channel: Channel;
  readonly limits: Limits;
}

const PART_BYTES = 64 * 1024;
const MAX_LIST_ENTRIES = 256;
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
    // On the wire 0 means all of it. For an empty range one byte is asked for, and not read.
    length: file.length === undefined ? 0n : length || 1n,
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
  const open = { ...fileRequest(file), mode: modeOf(file.mode) };
  const call = new Call(channel, signal);
  const upload = new Upload(call, limits, body);
  try {
    await call.ready();
    const reply = await channel.clientStream(Files.method.write, upload.messages(open), call.signal);
    call.rest();
    const sizeBytes = safeNumber('the size of a written file', reply.size);
    const sha256 = Buffer.from(reply.sha256).toString('hex');
    if (!upload.committed) throw brokenContract('a file was called written before its end');
    if (sizeBytes !== upload.sizeBytes) throw brokenContract(`${sizeBytes} bytes were written of ${upload.sizeBytes}`);
    if (sha256 !== upload.sha256()) throw brokenContract('the bytes written are not the bytes sent');
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
  /** What the body threw; the stream is then aborted without its commit. */
  bodyFailure: { readonly reason: unknown } | undefined;
  readonly #call: Call;
  readonly #limits: Limits;
  readonly #body: AsyncIterable<Uint8Array>;
  readonly #hash = createHash('sha256');

  constructor(call: Call, limits: Limits, body: AsyncIterable<Uint8Array>) {
    this.#call = call;
    this.#limits = limits;
    this.#body = body;
  }

  sha256(): string {
    return this.#hash.digest('hex');
  }

  async *messages(open: { path: Uint8Array; user: string; mode: number }) {
    yield* this.#send({ part: { case: 'open', value: open } } as const);
    for await (const chunk of this.#watchedBody()) {
      this.#hash.update(chunk);
      this.sizeBytes += chunk.length;
      for (let at = 0; at < chunk.length; at += PART_BYTES) {
        yield* this.#send({ part: { case: 'data', value: chunk.subarray(at, at + PART_BYTES) } } as const);
      }
    }
    this.committed = true;
    this.#call.expectWithin(this.#limits.commitMs);
    yield { part: { case: 'commit', value: {} } } as const;
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

function modeOf(mode: number | undefined): number {
  if (mode === undefined) return 0;
  // On the wire 0 means "as before", so a file without any permission cannot be asked for.
  if (!Number.isInteger(mode) || mode < 1 || mode > MAX_MODE) {
    throw new AppError('bad_request', 'The mode must be permission bits from 1 to 07777.');
  }
  return mode;
}

export async function stat({ channel, limits }: Context, file: FilePath): Promise<FileStatus> {
  const request = fileRequest(file);
  const options = { kind: 'file', limitMs: limits.replyMs, repeatable: true } as const;
  const reply = await callOnce(channel, options, (signal) => channel.unary(Files.method.stat, request, signal));
  return fileStatusOf(reply.status);
}

export async function* list(
  { channel, limits }: Context,
  directory: FilePath,
): AsyncGenerator<FileStatus, void, undefined> {
  const request = fileRequest(directory);
  const call = new Call(channel);
  try {
    call.expectWithin(limits.replyMs);
    for await (const { entries } of channel.serverStream(Files.method.list, request, call.signal)) {
      call.rest();
      if (entries.length > MAX_LIST_ENTRIES) throw brokenContract('a part of a listing is too long');
      for (const entry of entries) yield fileStatusOf(entry);
      call.expectWithin(limits.replyMs);
    }
  } catch (thrown) {
    throw await call.failure('file', thrown);
  } finally {
    call.end();
  }
}

function fileRequest(file: FilePath) {
  return { path: pathBytes(file.path), user: file.user ?? '' };
}
