/** Input on its way to a process: piece by piece, at its pace, each byte once. */
import { MAX_INPUT_BYTES, type ProcessId, type ProcessInput } from '@space/core';

interface Target {
  readonly processId: ProcessId;
  readonly offset?: number;
  readonly eof: boolean;
}

type Send = (input: ProcessInput) => Promise<{ readonly acceptedBytes: number }>;

/** Returns what the process has taken since its start, once it has taken all. */
export async function sendInput(
  { processId, offset, eof }: Target,
  body: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  send: Send,
): Promise<number> {
  // Where the input stands is asked for, so that every piece has its place and can be sent again.
  let at = offset ?? (await send({ processId, data: new Uint8Array(), eof: false })).acceptedBytes;
  let accepted = at;
  for await (const chunk of body) {
    const end = at + chunk.length;
    while (at < end) {
      signal.throwIfAborted();
      const data = chunk.subarray(chunk.length - (end - at)).subarray(0, MAX_INPUT_BYTES);
      accepted = (await send({ processId, offset: at, data, eof: false })).acceptedBytes;
      // It may be further than this piece, when it had taken it before.
      at = Math.min(end, Math.max(at, accepted));
    }
  }
  if (eof) accepted = (await send({ processId, offset: at, data: new Uint8Array(), eof })).acceptedBytes;
  return accepted;
}
