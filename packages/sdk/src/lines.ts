/** Reads a stream of events, one JSON object per line, at the pace of its reader. Empty lines are signs of life. */

import type { Problem } from '@space/contract';
import { fromProblem, invalidAnswer, linkLost } from './errors.ts';

/** No event of the server is longer; what is comes from something else. */
const MAX_LINE_LENGTH = 64 * 1024 * 1024;

/**
 * The events up to and including the last. Throws the problem of an `error` event, and `link_lost` when the stream ends
 * without a last event.
 */
export async function* readEvents<E extends { readonly type: string }>(
  response: Response,
  last: E['type'],
  signal: AbortSignal | undefined,
): AsyncGenerator<Exclude<E, { readonly type: 'error' }>> {
  let ended = false;
  try {
    for await (const line of readLines(response, signal)) {
      // After the last event only the end is waited for, so that the connection can serve the next call.
      if (ended || line === '') continue;
      const event = parse<E>(line, response.status);
      if (event.type === 'error') throw fromProblem((event as unknown as { problem: Problem }).problem);
      ended = event.type === last;
      yield event as Exclude<E, { readonly type: 'error' }>;
    }
  } catch (error) {
    if (!ended) throw error;
  }
  if (!ended) throw linkLost('The stream ended before its last event.');
}

function parse<E>(line: string, status: number): E {
  try {
    return JSON.parse(line) as E;
  } catch (error) {
    throw invalidAnswer('An event of the stream is not JSON.', status, error);
  }
}

async function* readLines(response: Response, signal: AbortSignal | undefined): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let pending: string[] = [];
  let pendingLength = 0;
  for await (const chunk of chunksOf(response, signal)) {
    const pieces = decoder.decode(chunk, { stream: true }).split('\n');
    const rest = pieces.pop() ?? '';
    for (const piece of pieces) {
      pending.push(piece);
      yield pending.join('');
      pending = [];
      pendingLength = 0;
    }
    pending.push(rest);
    pendingLength += rest.length;
    if (pendingLength > MAX_LINE_LENGTH) throw invalidAnswer('An event of the stream has no end.', response.status);
  }
}

/** The pieces of a body. Leaving the loop early closes the connection; a connection that breaks is `link_lost`. */
export async function* chunksOf(response: Response, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw linkLost('The connection broke off before the end.', error);
  } finally {
    // Of a stream that has ended or failed, this does nothing.
    await reader.cancel().catch(() => undefined);
  }
}
