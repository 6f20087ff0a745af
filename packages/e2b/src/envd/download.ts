/** GET /files: the bytes of a file, whole or a part, as they are or compressed. */
import { posix } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { constants, createGzip } from 'node:zlib';
import type { FileStatus } from '@space/core';
import type { EnvdCall } from './call.ts';
import { acceptedEncoding } from './encodings.ts';
import { isAbsence } from './entry.ts';
import { endsLife, HttpError } from './errors.ts';
import { type EnvdRequest, type EnvdResponse, resetConnection } from './http.ts';
import { absolutePath } from './paths.ts';
import { askedPart } from './range.ts';
import type { Users } from './users.ts';

interface Asked {
  readonly request: EnvdRequest;
  readonly response: EnvdResponse;
  readonly query: URLSearchParams;
}

export async function sendFile(call: EnvdCall, { request, response, query }: Asked, users: Users): Promise<void> {
  const path = await absolutePath(call, query.get('path') ?? '', users);
  const encoding = acceptedEncoding(request.headers['accept-encoding']);
  if (request.method === 'HEAD') {
    const status = await regularFileAt(call, path);
    describe(response, path, status);
    response.setHeader('content-length', status.sizeBytes);
    response.end();
    return;
  }
  const part = await partOf(call, path, { request, response });
  const file = { id: call.sandboxId, path, user: 'root' };
  const { status, body } = await call.useCases
    .readFile(call.caller, { ...file, ...part?.range })
    .catch(async (thrown) => {
      // Why it cannot be read is looked for only then.
      await regularFileAt(call, path);
      throw thrown;
    });
  describe(response, path, status);
  if (part !== undefined) {
    const { offset, length } = part.range;
    response.statusCode = 206;
    response.setHeader('content-range', `bytes ${offset}-${offset + length - 1}/${part.sizeBytes}`);
    response.setHeader('content-length', length);
  } else if (encoding === 'gzip') {
    response.setHeader('content-encoding', 'gzip');
  } else if (status.sizeBytes > 0) {
    // A file of the kernel's has a size of 0 and yet content: its length is known only once it was read.
    response.setHeader('content-length', status.sizeBytes);
  }
  try {
    if (part === undefined && encoding === 'gzip') {
      await pipeline(body, createGzip({ level: constants.Z_BEST_SPEED }), response);
    } else {
      await pipeline(ofLength(body, part?.range.length ?? status.sizeBytes), response);
    }
  } catch (thrown) {
    // What was sent is not the whole, and must not look like it.
    if (endsLife(thrown) || response.headersSent) resetConnection(response);
    else throw thrown;
  }
}

/**
 * So many bytes, whatever became of the file since it was looked at: what would follow them is taken for the next answer on the
 * connection, and what lacks is waited for. 0: nobody knows how many.
 */
async function* ofLength(body: AsyncIterable<Uint8Array>, length: number): AsyncGenerator<Uint8Array> {
  let left = length === 0 ? Number.POSITIVE_INFINITY : length;
  for await (const chunk of body) {
    yield chunk.length > left ? chunk.subarray(0, left) : chunk;
    left -= chunk.length;
    if (left <= 0) return;
  }
  if (length > 0) throw new Error(`The file ended ${left} bytes before its announced length.`);
}

async function regularFileAt({ useCases, caller, sandboxId: id }: EnvdCall, path: string): Promise<FileStatus> {
  const status = await useCases.statFile(caller, { id, path, user: 'root' }).catch((thrown) => {
    throw isAbsence(thrown) ? new HttpError(404, `path '${path}' does not exist`) : thrown;
  });
  if (status.type === 'directory') throw new HttpError(400, `path '${path}' is a directory`);
  if (status.type !== 'file') throw new HttpError(400, `path '${path}' is not a regular file`);
  return status;
}

/** Undefined: the whole. */
async function partOf(call: EnvdCall, path: string, { request, response }: Omit<Asked, 'query'>) {
  const { range: header } = request.headers;
  if (header === undefined) return undefined;
  const { sizeBytes } = await regularFileAt(call, path);
  const range = askedPart(header, sizeBytes);
  if (range === 'unsatisfiable') {
    response.setHeader('content-range', `bytes */${sizeBytes}`);
    throw new HttpError(416, `the file has ${sizeBytes} bytes`);
  }
  return range === undefined ? undefined : { range, sizeBytes };
}

/** Whatever it holds, a browser is not to run it. */
function describe(response: EnvdResponse, path: string, { modifiedMs }: FileStatus): void {
  response.setHeader('content-type', 'application/octet-stream');
  response.setHeader('x-content-type-options', 'nosniff');
  response.setHeader('content-disposition', `inline; filename*=UTF-8''${encodeURIComponent(posix.basename(path))}`);
  response.setHeader('last-modified', new Date(modifiedMs).toUTCString());
  response.setHeader('accept-ranges', 'bytes');
  response.setHeader('vary', 'accept-encoding');
}
