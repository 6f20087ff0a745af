/** A connection to a port as a stream of Node, so that an HTTP client can run over it. One that carries nothing is ended. */
import { Duplex } from 'node:stream';
import { AppError, asAppError, type PortConnection } from '@space/core';
import { PORT_IDLE_MS } from '../limits.ts';

export class PortStream extends Duplex {
  readonly #connection: PortConnection;
  readonly #output: AsyncIterator<Uint8Array>;
  readonly #idle: NodeJS.Timeout;
  #reading = false;

  constructor(connection: PortConnection, idleMs = PORT_IDLE_MS) {
    super({ allowHalfOpen: true });
    this.#connection = connection;
    this.#output = connection.output[Symbol.asyncIterator]();
    const late = () => this.destroy(new AppError('timed_out', `Nothing came or went for ${idleMs} ms.`));
    this.#idle = setTimeout(late, idleMs).unref();
  }

  override _read(): void {
    if (this.#reading) return;
    this.#reading = true;
    this.#output.next().then(
      ({ done, value }) => {
        this.#reading = false;
        this.#idle.refresh();
        this.push(done ? null : value);
      },
      (thrown: unknown) => this.destroy(asAppError(thrown)),
    );
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error) => void): void {
    this.#connection.write(chunk).then(
      () => {
        this.#idle.refresh();
        done();
      },
      (thrown: unknown) => done(asAppError(thrown)),
    );
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error) => void): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), 'utf8', done);
  }

  override _final(done: () => void): void {
    this.#connection.end();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.#idle);
    this.#connection.reset();
    done(error);
  }
}
