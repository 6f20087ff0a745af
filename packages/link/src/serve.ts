/** The side that answers: takes lines, and carries out one call on each. */
import { chmod, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { AppError, type PortConnection, type Tracer } from '@space/core';
import { receiveBody, sendBody } from './bodies.ts';
import type { CallHead, CallKind, Calls, Method } from './calls.ts';
import { describeFailure } from './failure.ts';
import { LentConnection } from './lent.ts';
import { FRAME, Line } from './line.ts';
import { Tickets } from './tickets.ts';
import { packValue, unpackValue } from './values.ts';

/** From connecting to the whole call frame. */
const CALL_WITHIN_MS = 10_000;
const MAX_LINES = 4_096;
/** Who may connect: the owner and the group of the folder that the socket lies in. */
const SOCKET_MODE = 0o660;

export interface ServedCalls {
  readonly socketPath: string;
  readonly calls: Calls;
  readonly methods: Readonly<Record<string, Method>>;
  /** Throws when the arguments are none that the method can be called with. */
  readonly check?: (method: string, args: readonly unknown[]) => void;
  /** Told of errors that are no part of the catalogue. */
  readonly onUnexpected: (thrown: unknown, method: string) => void;
  /** At once; beyond it a caller is cut off. */
  readonly maxLines?: number;
  /** Left out: nobody asked for traces. */
  readonly tracer?: Tracer | undefined;
}

export interface Service {
  /** Refuses new calls and ends those that are open. */
  close(): Promise<void>;
}

export async function serveCalls(served: ServedCalls): Promise<Service> {
  const sockets = new Set<Socket>();
  const tickets = Object.values(served.calls).includes('lend') ? new Tickets() : null;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    void answer(socket, served, tickets);
  });
  server.maxConnections = served.maxLines ?? MAX_LINES;
  // Of a process that is gone: nobody listens on it.
  await rm(served.socketPath, { force: true });
  await listen(server, served.socketPath);
  await chmod(served.socketPath, SOCKET_MODE);
  return {
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** Callers that come at once wait for their turn; the kernel turns those beyond away, and has a bound of its own (somaxconn). */
const BACKLOG = 4096;

async function listen(server: Server, path: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ path, backlog: BACKLOG }, resolve);
  });
}

/** One for all: every line goes at its end, and an error costs more than the rest of that. */
const CALLER_GONE = new AppError('link_lost', 'The caller is gone.');

async function answer(socket: Socket, served: ServedCalls, tickets: Tickets | null): Promise<void> {
  const line = new Line(socket);
  const gone = new AbortController();
  line.onGone(() => gone.abort(CALLER_GONE));
  let method = '';
  try {
    const head = await readHead(line);
    if (head === undefined) return line.close();
    if (head instanceof Uint8Array) {
      if (tickets === null) return line.close();
      return takeLent(line, socket, head, tickets);
    }
    method = head.method;
    const kind = Object.hasOwn(served.calls, method) ? served.calls[method] : undefined;
    const run = served.methods[method];
    if (kind === undefined || run === undefined) throw new AppError('bad_request', `There is no call "${method}".`);
    served.check?.(method, head.args);
    const work = () => carryOut({ line, kind, run, head, tickets, signal: gone.signal });
    // What is no part of a trace is not traced: the other side asks for much by itself.
    const { tracer } = served;
    if (tracer === undefined || head.traceparent === undefined) await work();
    else await tracer.span({ name: `link ${method}`, traceparent: head.traceparent }, work);
  } catch (thrown) {
    if (!(thrown instanceof AppError) && !line.gone) served.onUnexpected(thrown, method);
    await line.send(FRAME.failure, packValue(describeFailure(thrown)));
  }
  line.finish();
  line.discard();
}

/** The bytes of a connection, of which a call on a line of its own tells. */
function takeLent(line: Line, socket: Socket, ticket: Uint8Array, tickets: Tickets): void {
  line.release();
  socket.allowHalfOpen = true;
  tickets.offer(ticket, socket);
}

/** A call, or the ticket of one. */
async function readHead(line: Line): Promise<CallHead | Uint8Array | undefined> {
  const late = setTimeout(() => line.close(), CALL_WITHIN_MS);
  try {
    const frame = await line.read();
    if (frame === undefined) return undefined;
    if (frame.kind === FRAME.ticket) return frame.payload;
    if (frame.kind !== FRAME.call) throw new AppError('bad_request', 'The first frame is no call.');
    const { method, args, traceparent, ticket } = unpackValue(frame.payload) as Partial<CallHead>;
    // What it held has been copied out, and may be a key.
    frame.payload.fill(0);
    if (typeof method !== 'string' || !Array.isArray(args))
      throw new AppError('bad_request', 'The call has no method.');
    return {
      method,
      args,
      ...(typeof traceparent === 'string' ? { traceparent } : {}),
      ...(ticket instanceof Uint8Array ? { ticket } : {}),
    };
  } finally {
    clearTimeout(late);
  }
}

interface CarriedOut {
  readonly line: Line;
  readonly kind: CallKind;
  readonly run: Method;
  readonly head: CallHead;
  readonly tickets: Tickets | null;
  readonly signal: AbortSignal;
}

async function carryOut({ line, kind, run, head, tickets, signal }: CarriedOut): Promise<void> {
  const { args } = head;
  switch (kind) {
    case 'call':
    case 'read':
      // What was asked is carried out to its end, also when nobody waits for the answer.
      return line.send(FRAME.reply, packValue(await run(...args)));
    case 'abortable':
      line.discard();
      return line.send(FRAME.reply, packValue(await run(...args, signal)));
    case 'stream': {
      line.discard();
      for await (const item of run(...args, signal) as AsyncIterable<unknown>) {
        if (line.gone) return;
        await line.send(FRAME.item, packValue(item));
      }
      return line.send(FRAME.end);
    }
    case 'download': {
      line.discard();
      const { body, ...reply } = (await run(...args, signal)) as { readonly body: AsyncIterable<Uint8Array> };
      await line.send(FRAME.reply, packValue(reply));
      await sendBody(line, body);
      return;
    }
    case 'upload':
      return line.send(FRAME.reply, packValue(await run(...args, receiveBody(line), signal)));
    case 'connect': {
      const connection = (await run(...args, signal)) as PortConnection;
      await line.send(FRAME.reply, packValue(null));
      return carry(line, connection);
    }
    case 'lend': {
      if (tickets === null) throw new AppError('bad_request', 'Nothing is lent here.');
      const socket = await tickets.find(head.ticket ?? new Uint8Array(), signal);
      const lent = new LentConnection(line, socket);
      line.onGone(() => socket.destroy());
      await run(...args, lent, signal);
      await lent.whenDelivered();
      return line.send(FRAME.reply, packValue(null));
    }
  }
}

/** Both directions of a connection. How it ended early is told by its output. */
async function carry(line: Line, connection: PortConnection): Promise<void> {
  const give = async () => {
    for await (const bytes of receiveBody(line)) await connection.write(bytes);
    connection.end();
  };
  // When the line breaks, the signal resets the connection; when a write fails, it is gone.
  const given = give().catch(() => undefined);
  await sendBody(line, connection.output);
  await given;
}
