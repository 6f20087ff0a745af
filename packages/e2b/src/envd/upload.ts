/** POST /files: one file as the body, or several as parts of a form. Streamed into the sandbox, each replaced as a whole. */
import { posix } from 'node:path';
import type { Readable } from 'node:stream';
import { Busboy, type BusboyInstance } from '@fastify/busboy';
import type { EnvdCall } from './call.ts';
import { decoded } from './encodings.ts';
import { HttpError } from './errors.ts';
import type { EnvdRequest } from './http.ts';
import { keepMetadata, type Metadata, metadataIn } from './metadata.ts';
import { ensureDirectory, giveTo, isOwnDirectory } from './ownership.ts';
import { pacedBody } from './paced-body.ts';
import { absolutePath } from './paths.ts';
import type { GuestUser, Users } from './users.ts';

const MAX_FILES = 1_000;
const MAX_FIELDS = 100;
const MAX_FIELD_BYTES = 64 * 1024;
/** In the place of bytes that are not UTF-8. */
const UNREADABLE = '\ufffd';

export interface WrittenFile {
  readonly path: string;
  readonly name: string;
  readonly type: 'file';
  readonly metadata?: Metadata;
}

interface Upload {
  readonly call: EnvdCall;
  readonly users: Users;
  readonly owner: GuestUser;
  readonly metadata: Metadata;
}

export async function receiveFiles(
  call: EnvdCall,
  request: EnvdRequest,
  { query, users }: { readonly query: URLSearchParams; readonly users: Users },
): Promise<readonly WrittenFile[]> {
  const upload = { call, users, metadata: metadataIn(request.headers), owner: await users.find(call) };
  const path = query.get('path') ?? '';
  const type = request.headers['content-type'] ?? '';
  if (/^application\/octet-stream\b/i.test(type)) {
    if (path === '') throw new HttpError(400, 'path is required for an upload of one file as the body');
    return [await writeOne(upload, path, decoded(pacedBody(request), request.headers['content-encoding']))];
  }
  if (!/^multipart\/form-data\b/i.test(type)) {
    throw new HttpError(400, 'the body must be multipart/form-data or application/octet-stream');
  }
  return receiveForm(upload, request, path);
}

/** Each part is written while it comes; the parser waits for the sandbox. */
async function receiveForm(upload: Upload, request: EnvdRequest, path: string): Promise<readonly WrittenFile[]> {
  const parser = parserOf(request);
  const body = decoded(pacedBody(request), request.headers['content-encoding']);
  const written: WrittenFile[] = [];
  const ended = Promise.withResolvers<void>();
  let line: Promise<void> = Promise.resolve();
  let count = 0;

  parser.on('file', (field, file, filename) => {
    // Its errors reach whoever reads it; a part that nobody reads has none to tell.
    file.on('error', () => undefined);
    if (field !== 'file') return void file.resume();
    const isFirst = ++count === 1;
    const work = async () => {
      if (path !== '' && !isFirst) throw new HttpError(400, 'path names one file, and there are several');
      const target = path || filename || '';
      // Bytes that are no text would name another file than the client has.
      if (path === '' && target.includes(UNREADABLE))
        throw new HttpError(400, 'a filename is not UTF-8: give the path');
      if (target === '') throw new HttpError(400, 'a part has no filename, and there is no path');
      const one = await writeOne(upload, target, file);
      if (written.some((other) => other.path === one.path)) {
        throw new HttpError(400, `several parts are for the same path '${one.path}'`);
      }
      written.push(one);
    };
    line = line.then(work);
    line.catch(ended.reject);
  });
  parser.on('filesLimit', () => ended.reject(new HttpError(400, `a form has at most ${MAX_FILES} files`)));
  parser.on('fieldsLimit', () => ended.reject(new HttpError(400, `a form has at most ${MAX_FIELDS} fields`)));
  parser.on('finish', () => void line.then(ended.resolve, ended.reject));
  parser.on('error', (error) => ended.reject(new HttpError(400, `the form cannot be read: ${String(error)}`)));
  body.on('error', ended.reject);
  body.pipe(parser);
  try {
    await ended.promise;
    return written;
  } finally {
    body.unpipe(parser);
    parser.destroy();
  }
}

function parserOf(request: EnvdRequest): BusboyInstance {
  const { 'content-type': type = '' } = request.headers;
  try {
    return new Busboy({
      headers: { ...request.headers, 'content-type': type },
      // The filename may be the whole path.
      preservePath: true,
      limits: { files: MAX_FILES, fields: MAX_FIELDS, fieldSize: MAX_FIELD_BYTES },
    });
  } catch (thrown) {
    throw new HttpError(400, `the form cannot be read: ${thrown instanceof Error ? thrown.message : thrown}`);
  }
}

async function writeOne(
  { call, users, owner, metadata }: Upload,
  target: string,
  body: Readable,
): Promise<WrittenFile> {
  const path = await absolutePath(call, target, users);
  const directory = posix.dirname(path);
  // The short way is the usual one: it changes the owner of nothing, which would wait for the disk.
  const isOwn = await isOwnDirectory(call, directory, owner);
  if (!isOwn) await ensureDirectory(call, directory, owner);
  await writeAs(isOwn ? owner.name : 'root', call, { path, body });
  if (!isOwn) await giveTo(call, path, owner);
  await keepMetadata(call, path, metadata);
  const hasMetadata = Object.keys(metadata).length > 0;
  return { path, name: posix.basename(path), type: 'file', ...(hasMetadata && { metadata }) };
}

async function writeAs(
  user: string,
  { useCases, caller, sandboxId: id }: EnvdCall,
  { path, body }: { readonly path: string; readonly body: Readable },
): Promise<void> {
  let failure: unknown;
  const content = noting(body, (thrown) => {
    failure = thrown;
  });
  await useCases.writeFile(caller, { id, path, user }, content).catch((thrown: unknown) => {
    // A body that cannot be read is the client's, whatever became of the writing.
    throw failure ?? thrown;
  });
}

async function* noting(body: Readable, note: (thrown: unknown) => void): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (thrown) {
    note(thrown);
    throw thrown;
  }
}
