/** File bodies, down and up. */
import { givenBytes, type OpenFile, type WrittenFile } from '@space/contract';
import type { FileStatus } from '@space/core';
import { AppError } from '@space/core';
import { readBody } from './body.ts';
import type { Call } from './call.ts';
import { toldPath } from './file-wire.ts';
import { ClientGone, discard, itemsOf, type Opened, open, write } from './outgoing.ts';
import { contentRange, type Part, parseRange, partOf } from './range.ts';
import { toInstant, toOctal } from './wire.ts';

export async function sendFile(call: Call<'readFile'>): Promise<void> {
  const asked = await askedPart(call);
  const file: OpenFile = await call.useCases.readFile(call.caller, { ...call.input, ...asked.input });
  const { sizeBytes } = file.status;
  const body = await open(file.body);
  let part: Part;
  try {
    part = partOf(sizeBytes, asked.input.offset, asked.input.length);
    const range = asked.byRange ? { 'content-range': contentRange(part, sizeBytes) } : {};
    // Files of the kernel, as in /proc, say size 0 and have content all the same.
    const length = sizeBytes === 0 ? {} : { 'content-length': part.length };
    call.response.writeHead(asked.byRange ? 206 : 200, { ...headersOf(file.status), ...range, ...length });
  } catch (error) {
    await discard(body);
    throw error;
  }
  await sendBytes(call, body, sizeBytes === 0 ? undefined : part);
}

/** As `sendFile`, without opening the file. */
export async function sendHead({ useCases, caller, input, response }: Call<'headFile'>): Promise<void> {
  const status = await useCases.statFile(caller, input);
  if (status.type !== 'file') throw new AppError('file_wrong_type', 'It is not a regular file.');
  const length = status.sizeBytes === 0 ? {} : { 'content-length': status.sizeBytes };
  response.writeHead(200, { ...headersOf(status), ...length });
  response.end();
}

interface AskedPart {
  readonly byRange: boolean;
  readonly input: { readonly offset?: number; readonly length?: number };
}

async function askedPart({ useCases, caller, input, request }: Call<'readFile'>): Promise<AskedPart> {
  const range = parseRange(request.headers.range);
  if (range === undefined) return { byRange: false, input };
  if (input.offset !== undefined || input.length !== undefined) {
    throw new AppError('bad_request', 'A Range header and offset or length cannot be combined.');
  }
  if (range.kind === 'from') {
    const length = range.last === undefined ? {} : { length: range.last - range.first + 1 };
    return { byRange: true, input: { offset: range.first, ...length } };
  }
  const { offset: _, length: __, ...path } = input;
  const { sizeBytes } = await useCases.statFile(caller, path);
  if (range.count === 0) contentRange(partOf(0), sizeBytes);
  return { byRange: true, input: { offset: Math.max(0, sizeBytes - range.count), length: range.count } };
}

function headersOf(status: FileStatus): Record<string, string | number> {
  return {
    'content-type': 'application/octet-stream',
    'content-disposition': 'attachment',
    'accept-ranges': 'bytes',
    'last-modified': toInstant(status.modifiedMs).toUTCString(),
    'x-space-file-size': status.sizeBytes,
    'x-space-file-mode': toOctal(status.mode),
    'x-space-file-uid': status.uid,
    'x-space-file-gid': status.gid,
  };
}

/** A file that grew is cut at the length that was announced; one that shrank breaks the connection off. */
async function sendBytes(call: Call<'readFile'>, body: Opened<Uint8Array>, part: Part | undefined): Promise<void> {
  let left = part?.length ?? Number.POSITIVE_INFINITY;
  try {
    for await (const chunk of itemsOf(body)) {
      const wanted = chunk.length > left ? chunk.subarray(0, left) : chunk;
      left -= wanted.length;
      if (wanted.length > 0) await write(call.response, wanted);
      if (wanted.length < chunk.length) break;
    }
    if (part !== undefined && left > 0) {
      throw new AppError('link_lost', `The file ended ${left} bytes before its announced length.`);
    }
    call.response.end();
  } catch (error) {
    // The status is gone out already: only a broken connection can still say that the body is not whole.
    call.response.destroy();
    if (!(error instanceof ClientGone)) call.server.explain(error, call.caller.requestId);
  }
}

export async function receiveFile(call: Call<'writeFile'>): Promise<WrittenFile> {
  const body = readBody(call.request, { idleMs: call.server.uploadIdleMs });
  const written = await call.useCases.writeFile(call.caller, call.input, body);
  const { path, pathBase64 } = call.input;
  return { ...toldPath(givenBytes(path, pathBase64)), sizeBytes: written.sizeBytes, sha256: written.sha256 };
}
