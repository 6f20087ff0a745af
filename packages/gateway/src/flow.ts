/**
 * All of one stream into another, at the pace of who reads. What `pipeline` does, but for its abort controller: its exception at
 * the end of each stream, with a stack, costs more than the rest of a small request.
 */
import type { Readable, Writable } from 'node:stream';

interface Flow {
  readonly from: Readable;
  readonly to: Writable;
  readonly see: (bytes: number) => void;
  /** Called once, when the last byte was given on, or with why it was not; who is told so ends both. */
  readonly done: (error: Error | null) => void;
}

export function flow({ from, to, see, done }: Flow): void {
  const settle = (error: Error | null): void => {
    for (const [event, listener] of Object.entries(reading)) from.off(event, listener);
    for (const [event, listener] of Object.entries(writing)) to.off(event, listener);
    done(error);
  };
  const reading = {
    data: (bytes: Buffer) => {
      see(bytes.length);
      if (!to.write(bytes)) from.pause();
    },
    end: () => void to.end(),
    error: settle,
    close: () => {
      if (!from.readableEnded) settle(new Error('what was read broke off'));
    },
  };
  const writing = {
    drain: () => void from.resume(),
    finish: () => settle(null),
    error: settle,
    close: () => settle(to.writableFinished ? null : new Error('nobody reads it any more')),
  };
  for (const [event, listener] of Object.entries(writing)) to.on(event, listener);
  for (const [event, listener] of Object.entries(reading)) from.on(event, listener);
}
