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
import { parseRange } from './range.ts';
import type { Users } from './users.ts';

export async function sendFile(
  call: EnvdCall,
  { request, response, query }: { request: EnvdRequest; response: EnvdResponse; query: URLSearchParams },
  users: Users,
): Promise<void> {
  const path = await absolutePath(call, query.get('path') ?? '', users);
  const encoding = acceptedEncoding(request.headers['accept-encoding']);
  const { useCases, caller, sandboxId: id } = call;
  const file = { id, path, user: 'root' };
  const status = await useCases.statFile(caller, file).catch((thrown) => {
    throw isAbsence(thrown) ? new HttpError(404, `path '${path}' does not exist`) : thrown;
  });
  if (status.type === 'directory') throw new HttpError(400, `path '${path}' is a directory`);
  if (status.type !== 'file') throw new HttpError(400, `path '${path}' is not a regular file`);

  const range = request.method === 'HEAD' ? undefined : parseRange(request.headers.range, status.sizeBytes);
  if (range === 'unsatisfiable') {
    response.setHeader('content-range', `bytes */${status.sizeBytes}`);
    throw new HttpError(416, `the file has ${status.sizeBytes} bytes`);
  }
  if (request.method === 'HEAD') {
    describe(response, path, status);
    response.setHeader('content-length', status.sizeBytes);
    response.end();
    return;
  }
  const opened = await useCases.readFile(caller, { ...file, ...range });
  describe(response, path, opened.status);
  // A file of the kernel's has a size of 0 and yet content: its length is known only once it was read.
  const isMeasured = opened.status.sizeBytes > 0 || range !== undefined;
  if (range !== undefined) {
    response.statusCode = 206;
    response.setHeader('content-range', `bytes ${range.offset}-${range.offset + range.length - 1}/${status.sizeBytes}`);
    response.setHeader('content-length', range.length);
  } else if (encoding === 'gzip') {
    response.setHeader('content-encoding', 'gzip');
  } else if (isMeasured) {
    response.setHeader('content-length', opened.status.sizeBytes);
  }
  try {
    if (range === undefined && encoding === 'gzip') {
      await pipeline(opened.body, createGzip({ level: constants.Z_BEST_SPEED }), response);
    } else {
      await pipeline(opened.body, response);
    }
  } catch (thrown) {
    // What was sent is not the whole, and must not look like it.
    if (endsLife(thrown) || response.headersSent) resetConnection(response);
    else throw thrown;
  }
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
