/**
 * How a method goes over a line. The client's first frame is the call: the method and its arguments. Then:
 *
 *     call, read, abortable   ◄ reply
 *     stream                  ◄ item … end
 *     download                ◄ reply, body … end
 *     upload                  ► body … end   ◄ reply
 *     connect                 ◄ reply, then both ways: body … end
 *     lend                    both ways: end, of the bytes on a connection beside it; ◄ reply when it is over
 *
 * A failure may come in place of any answer and is the last frame. Who closes the line early gives the call up: the other
 * side's signal aborts. `read` are calls that change nothing, or nothing more when they are repeated.
 */
import type { PortConnection } from '@space/core';

export type CallKind = 'call' | 'read' | 'abortable' | 'stream' | 'download' | 'upload' | 'connect' | 'lend';

export type Calls = Readonly<Record<string, CallKind>>;

/** What a method of a port must be to go over a line as that kind. */
export type KindOf<F> = F extends (...args: infer A) => infer R
  ? R extends AsyncIterable<unknown>
    ? 'stream'
    : R extends Promise<{ readonly body: AsyncIterable<Uint8Array> }>
      ? 'download'
      : R extends Promise<PortConnection>
        ? 'connect'
        : R extends Promise<unknown>
          ? Extract<A[number], PortConnection> extends never
            ? Extract<A[number], AsyncIterable<Uint8Array>> extends never
              ? Extract<A[number], AbortSignal> extends never
                ? 'call' | 'read'
                : 'abortable'
              : 'upload'
            : 'lend'
          : never
  : never;

/** What the first frame holds. */
export interface CallHead {
  readonly method: string;
  /** Without signal and body. */
  readonly args: readonly unknown[];
  /** The span that it is a part of, where there are traces. */
  readonly traceparent?: string;
  /** By which the connection that is lent finds the call. */
  readonly ticket?: Uint8Array;
}

// biome-ignore lint/suspicious/noExplicitAny: methods of any port are called by what the table says of them.
export type Method = (...args: any[]) => unknown;
