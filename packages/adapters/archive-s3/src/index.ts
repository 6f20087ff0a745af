/**
 * The archive port on storage that speaks S3. Objects appear whole by the storage's own promise. What is sent is signed with its
 * digest, which the storage checks; what is read is checked by who reads it. Checksums that only some storages know are not
 * asked for. What may be made once is asked for with `If-None-Match: *`, which not every storage minds: that is tried first, and
 * one that does not is refused.
 */
import { randomUUID } from 'node:crypto';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import {
  AppError,
  type Archive,
  type ArchiveKey,
  archivePath,
  type ListedFolder,
  type ProjectId,
  parseArchiveKey,
} from '@space/core';

/** Of one object of a few hundred kilobytes. */
const CONNECT_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 60_000;
/** With growing pauses; then the caller is told, who may go on later. */
const MAX_ATTEMPTS = 5;

export interface S3Options {
  readonly bucket: string;
  /** Before every name, e.g. `space/`; empty: none. */
  readonly prefix: string;
  readonly region: string;
  /** Of a storage that is not Amazon's, e.g. `https://minio.example.com`; buckets are then named in paths. */
  readonly endpoint?: string;
  /** Left out: from the environment or the machine, as the SDK finds them. */
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
  /** For tests. */
  readonly requestTimeoutMs?: number;
  readonly maxAttempts?: number;
}

interface Place {
  readonly Bucket: string;
  readonly Key: string;
}

interface SendOptions {
  readonly abortSignal?: AbortSignal;
}

export interface S3Archive extends Archive {
  close(): void;
}

/** Throws `archive_unavailable` when the bucket cannot be reached. */
export async function openS3Archive(options: S3Options): Promise<S3Archive> {
  const archive = new BucketArchive(options);
  try {
    await archive.check();
    return archive;
  } catch (thrown) {
    archive.close();
    throw thrown;
  }
}

class BucketArchive implements S3Archive {
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;
  #mindsConditions = false;

  constructor({ bucket, prefix, region, endpoint, credentials, requestTimeoutMs, maxAttempts }: S3Options) {
    this.#bucket = bucket;
    this.#prefix = prefix;
    this.#client = new S3Client({
      region,
      maxAttempts: maxAttempts ?? MAX_ATTEMPTS,
      requestHandler: {
        connectionTimeout: CONNECT_TIMEOUT_MS,
        requestTimeout: requestTimeoutMs ?? REQUEST_TIMEOUT_MS,
        throwOnRequestTimeout: true,
      },
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
      ...(credentials === undefined ? {} : { credentials }),
    });
  }

  check(): Promise<void> {
    return this.#run('reaching the bucket', undefined, async (options) => {
      await this.#client.send(new HeadBucketCommand({ Bucket: this.#bucket }), options);
    });
  }

  get(key: ArchiveKey, maxBytes: number, signal?: AbortSignal): Promise<Uint8Array | null> {
    return this.#run('reading', signal, async (options) => {
      try {
        const { Body, ContentLength } = await this.#client.send(new GetObjectCommand(this.#place(key)), options);
        if (Body === undefined) return new Uint8Array();
        return await readWhole(Body as AsyncIterable<Uint8Array>, { key, maxBytes, length: ContentLength });
      } catch (thrown) {
        if (thrown instanceof S3ServiceException && thrown.name === 'NoSuchKey') return null;
        throw thrown;
      }
    });
  }

  put(key: ArchiveKey, bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
    return this.#run('writing', signal, async (options) => {
      await this.#client.send(new PutObjectCommand({ ...this.#place(key), Body: bytes }), options);
    });
  }

  create(key: ArchiveKey, bytes: Uint8Array, signal?: AbortSignal): Promise<boolean> {
    return this.#run('making what may be made once', signal, async (options) => {
      await this.#checkConditions(options);
      return this.#createAt(this.#place(key), bytes, options);
    });
  }

  async #createAt(place: Place, bytes: Uint8Array, options: SendOptions): Promise<boolean> {
    try {
      await this.#client.send(new PutObjectCommand({ ...place, Body: bytes, IfNoneMatch: '*' }), options);
      return true;
    } catch (thrown) {
      // There is one, or somebody is just making one.
      if (thrown instanceof S3ServiceException && [409, 412].includes(thrown.$metadata.httpStatusCode ?? 0))
        return false;
      throw thrown;
    }
  }

  /** A storage that does not know the condition replaces what is there, and says that all is well. */
  async #checkConditions(options: SendOptions): Promise<void> {
    if (this.#mindsConditions) return;
    const probe = { Bucket: this.#bucket, Key: `${this.#prefix}probes/${randomUUID()}` };
    await this.#createAt(probe, Buffer.of(1), options);
    const isReplaced = await this.#createAt(probe, Buffer.of(2), options);
    await this.#client.send(new DeleteObjectCommand(probe), options);
    if (isReplaced) {
      const detail = 'The storage of archives does not mind If-None-Match, without which two could take up one move.';
      throw new AppError('archive_unavailable', detail);
    }
    this.#mindsConditions = true;
  }

  has(key: ArchiveKey, signal?: AbortSignal): Promise<boolean> {
    return this.#run('looking', signal, async (options) => {
      try {
        await this.#client.send(new HeadObjectCommand(this.#place(key)), options);
        return true;
      } catch (thrown) {
        if (thrown instanceof S3ServiceException && thrown.$metadata.httpStatusCode === 404) return false;
        throw thrown;
      }
    });
  }

  remove(key: ArchiveKey, signal?: AbortSignal): Promise<void> {
    return this.#run('removing', signal, async (options) => {
      await this.#client.send(new DeleteObjectCommand(this.#place(key)), options);
    });
  }

  async *list(space: ProjectId, folder: ListedFolder, signal?: AbortSignal): AsyncGenerator<ArchiveKey, void> {
    const prefix = `${this.#prefix}${space}/${folder}/`;
    let token: string | undefined;
    do {
      const page = new ListObjectsV2Command({ Bucket: this.#bucket, Prefix: prefix, ContinuationToken: token });
      const { Contents = [], NextContinuationToken } = await this.#run('listing', signal, (options) =>
        this.#client.send(page, options),
      );
      for (const { Key = '' } of Contents) {
        const key = parseArchiveKey(space, folder, Key.slice(prefix.length));
        if (key !== undefined) yield key;
      }
      token = NextContinuationToken;
    } while (token !== undefined);
  }

  close(): void {
    this.#client.destroy();
  }

  #place(key: ArchiveKey): Place {
    return { Bucket: this.#bucket, Key: `${this.#prefix}${archivePath(key)}` };
  }

  async #run<T>(
    doing: string,
    signal: AbortSignal | undefined,
    work: (options: SendOptions) => Promise<T>,
  ): Promise<T> {
    signal?.throwIfAborted();
    try {
      return await work(signal === undefined ? {} : { abortSignal: signal });
    } catch (thrown) {
      if (signal?.aborted) throw signal.reason;
      if (thrown instanceof AppError) throw thrown;
      throw new AppError('archive_unavailable', `The storage of archives failed in ${doing}: ${causeOf(thrown)}.`, {
        cause: thrown,
      });
    }
  }
}

/** Its text may hold what it likes, and its name too, within bounds. */
function causeOf(thrown: unknown): string {
  if (thrown instanceof S3ServiceException) {
    return `${thrown.name.slice(0, 60)} (status ${thrown.$metadata.httpStatusCode ?? 'unknown'})`;
  }
  return thrown instanceof Error ? thrown.message.slice(0, 200) : 'unknown';
}

interface ToRead {
  readonly key: ArchiveKey;
  readonly maxBytes: number;
  readonly length: number | undefined;
}

/** What an answer says of its length is believed only as far as it is a bound. */
async function readWhole(body: AsyncIterable<Uint8Array>, { key, maxBytes, length }: ToRead): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let total = 0;
  for await (const part of body) {
    total += part.length;
    if (total > maxBytes) throw new AppError('archive_damaged', `${archivePath(key)} has more than ${maxBytes} bytes.`);
    parts.push(part);
  }
  if (length !== undefined && total !== length) throw new Error(`the answer was cut after ${total} of ${length} bytes`);
  return Buffer.concat(parts);
}
