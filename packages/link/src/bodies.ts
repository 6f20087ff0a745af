/** Bodies on a line: frames of bytes, and one that says that it was all. */
import { AppError } from '@space/core';
import { FRAME, type Line, MAX_BODY_BYTES } from './line.ts';

/** The bytes in frames of bounded length, each sent when there is room. Stops early when nobody is there. */
export async function sendBody(line: Line, body: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const bytes of body) {
    for (let offset = 0; offset < bytes.length; offset += MAX_BODY_BYTES) {
      if (line.gone) return;
      await line.send(FRAME.body, [bytes.subarray(offset, offset + MAX_BODY_BYTES)]);
    }
  }
  await line.send(FRAME.end);
}

/** The bytes that the other side sends, each frame read when it is asked for. Throws when they end before their end. */
export async function* receiveBody(line: Line): AsyncGenerator<Uint8Array, void> {
  for (;;) {
    const frame = await line.read();
    if (frame?.kind === FRAME.end) return;
    if (frame?.kind !== FRAME.body) throw new AppError('link_lost', 'The body ended before its end.');
    yield frame.payload;
  }
}
