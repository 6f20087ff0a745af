/**
 * The calls that are being answered. Each has a signal that aborts when its client vanishes, or when the server closes and
 * cannot wait any longer; that signal is what the use-cases get.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError } from '@space/core';
import { LINGER_MS } from './limits.ts';
import { ClientGone } from './outgoing.ts';

export class InFlight {
  readonly #calls = new Set<AbortController>();

  get count(): number {
    return this.#calls.size;
  }

  /** Follows a call from its head to its end. */
  track(request: IncomingMessage, response: ServerResponse): AbortSignal {
    const controller = new AbortController();
    this.#calls.add(controller);
    response.once('finish', () => drainRest(request));
    response.once('close', () => {
      this.#calls.delete(controller);
      if (!response.writableFinished) controller.abort(new ClientGone());
    });
    return controller.signal;
  }

  /** Follows a connection that was taken over from HTTP. */
  trackSocket(socket: Duplex): AbortSignal {
    const controller = new AbortController();
    this.#calls.add(controller);
    socket.once('close', () => {
      this.#calls.delete(controller);
      controller.abort(new ClientGone());
    });
    return controller.signal;
  }

  /** Tells every call that the server closes. */
  abortAll(): void {
    for (const call of this.#calls) {
      call.abort(new AppError('unavailable', 'The server is closing. What was started in the sandbox goes on.'));
    }
  }
}

/**
 * Reads away what is left of a body after the answer, for a bounded time: to close at once would make the network drop
 * the answer before the client has read it.
 */
function drainRest(request: IncomingMessage): void {
  if (request.complete) return;
  const timer = setTimeout(() => request.socket.destroy(), LINGER_MS);
  // A listener, since a reader that is just leaving would undo a plain `resume`.
  request.once('close', () => clearTimeout(timer)).on('data', () => undefined);
  request.resume();
}
