/** The far end of what leaves sandboxes, for tests: a pair of connected ends in memory, and a gateway that a test speaks for. */
import {
  AppError,
  type EgressConnection,
  type EgressPort,
  type OutgoingConnection,
  type PortConnection,
} from '@space/core';

/** Two ends of one connection: what is written to one comes out of the other. A write returns when it has been read. */
export function portPair(): readonly [PortConnection, PortConnection] {
  const cut = Promise.withResolvers<void>();
  const [there, back] = [new Direction(cut.promise), new Direction(cut.promise)];
  const closed = Promise.race([cut.promise, Promise.all([there.ended, back.ended]).then(() => undefined)]);
  const end = (outgoing: Direction, incoming: Direction): PortConnection => ({
    output: incoming.read(() => cut.resolve()),
    write: (bytes) => outgoing.write(bytes),
    end: () => outgoing.end(),
    reset: () => {
      if (!outgoing.hasEnded || !incoming.hasEnded) cut.resolve();
    },
    closed,
  });
  return [end(there, back), end(back, there)];
}

class Direction {
  readonly ended: Promise<void>;
  hasEnded = false;
  readonly #cut: Promise<'cut'>;
  readonly #unread: { readonly bytes: Uint8Array; readonly taken: () => void }[] = [];
  #isCut = false;
  #wake = (): void => undefined;
  readonly #end: () => void;

  constructor(cut: Promise<void>) {
    this.#cut = cut.then(() => {
      this.#isCut = true;
      this.#wake();
      return 'cut';
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    this.#end = resolve;
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (this.#isCut || this.hasEnded) throw reset();
    const taken = Promise.withResolvers<void>();
    this.#unread.push({ bytes: Uint8Array.from(bytes), taken: taken.resolve });
    this.#wake();
    if ((await Promise.race([taken.promise, this.#cut])) === 'cut') throw reset();
  }

  end(): void {
    this.hasEnded = true;
    this.#wake();
  }

  async *read(leave: () => void): AsyncGenerator<Uint8Array, void> {
    let whole = false;
    try {
      for (;;) {
        if (this.#isCut) throw reset();
        const piece = this.#unread.shift();
        if (piece !== undefined) {
          yield piece.bytes;
          piece.taken();
        } else if (this.hasEnded) {
          whole = true;
          return this.#end();
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      if (!whole) leave();
    }
  }
}

function reset(): AppError {
  return new AppError('link_lost', 'The connection was reset.');
}

export type EgressHandler = (guest: PortConnection, connection: EgressConnection, signal: AbortSignal) => Promise<void>;

/** Refuses everything, as a gateway without rules does, until a test gives it something to do. */
export class FakeEgress implements EgressPort {
  /** Every connection that came, in order. */
  readonly asked: EgressConnection[] = [];
  handle: EgressHandler = async () => {
    throw new AppError('egress_refused', 'No rules are loaded.');
  };

  async carry(connection: EgressConnection, guest: PortConnection, signal: AbortSignal): Promise<void> {
    this.asked.push(connection);
    await this.handle(guest, connection, signal);
  }
}

/** The programs of a fake VM that open connections to somewhere else. */
export class FakeOutgoing {
  readonly #waiting: OutgoingConnection[] = [];
  #wake = (): void => undefined;

  /** As a program in the guest; returns its end. */
  dial(host: string, port: number): PortConnection {
    const [program, guest] = portPair();
    const open = async (signal?: AbortSignal) => {
      signal?.addEventListener('abort', () => guest.reset());
      return guest;
    };
    this.#waiting.push({ host, port, open });
    this.#wake();
    return program;
  }

  /** The next that nobody has taken; throws what the channel is lost for, and the signal's reason. */
  async next(lost: Promise<AppError>, signal?: AbortSignal): Promise<OutgoingConnection> {
    const ends = [lost, new Promise<unknown>((resolve) => onAbort(signal, () => resolve(signal?.reason)))];
    for (;;) {
      const next = this.#waiting.shift();
      if (next !== undefined) return next;
      const news = new Promise<undefined>((resolve) => {
        this.#wake = () => resolve(undefined);
      });
      const ended = await Promise.race([news, ...ends]);
      if (ended !== undefined) throw ended;
    }
  }
}

function onAbort(signal: AbortSignal | undefined, listener: () => void): void {
  if (signal?.aborted) listener();
  else signal?.addEventListener('abort', listener, { once: true });
}
