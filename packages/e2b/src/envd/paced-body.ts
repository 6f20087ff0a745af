/** The bytes of a request body, as `readBody` gives them, as a stream and with the errors of this face. */
import { Readable } from 'node:stream';
import { ProtocolError } from '@space/contract';
import { readBody, UPLOAD_IDLE_MS } from '@space/http/parts';
import { HttpError } from './errors.ts';
import type { EnvdRequest } from './http.ts';

/** Leaving it early leaves the connection open, so that an answer can still be sent. */
export function pacedBody(request: EnvdRequest): Readable {
  return Readable.from(pieces(request), { objectMode: false, highWaterMark: 64 * 1024 });
}

async function* pieces(request: EnvdRequest): AsyncGenerator<Uint8Array> {
  try {
    yield* readBody(request, { idleMs: UPLOAD_IDLE_MS });
  } catch (thrown) {
    if (!(thrown instanceof ProtocolError)) throw thrown;
    throw new HttpError(408, 'the body comes too slowly');
  }
}
