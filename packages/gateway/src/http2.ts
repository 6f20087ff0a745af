/**
 * HTTP/2 of a guest, gRPC included: a session here and one to the host, and for each stream a stream. Each is judged by
 * itself, whatever the others on the connection were.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Stream,
} from 'node:http2';
import { type Duplex, pipeline } from 'node:stream';
import { AppError } from '@space/core';
import { type Admitted, type AskedRequest, admit, type Header, untilClosed } from './admission.ts';
import type { Way } from './http1.ts';
import type { Account, Passage } from './passage.ts';
import { answerOf } from './refusal.ts';
import { RequestBody } from './request-body.ts';
import { isHopByHop, pathOf, readHttp2Head, staysBehind } from './request-head.ts';

const MAX_STREAMS = 256;
const WINDOW_BYTES = 1024 * 1024;
/** Settles when the connection has ended. */
export async function serveHttp2(stream: Duplex, passage: Passage, way: Way): Promise<void> {
  const session = performServerHandshake(stream, {
    maxHeaderListPairs: 256,
    settings: { maxConcurrentStreams: MAX_STREAMS, initialWindowSize: WINDOW_BYTES, enableConnectProtocol: false },
  });
  const far = new FarSession(passage, way);
  session.on('error', () => undefined);
  session.on('connect', () => session.setLocalWindowSize(WINDOW_BYTES * 4));
  session.on('stream', (near, headers, flags) => {
    near.on('error', () => undefined);
    void answer({ near, headers, isWhole: (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0, passage, way, far });
  });
  await new Promise<void>((resolve) => {
    session.once('close', resolve);
    stream.once('close', resolve);
  });
  far.close();
  session.destroy();
}

interface Asked {
  readonly near: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  /** Whether it has no body. */
  readonly isWhole: boolean;
  readonly passage: Passage;
  readonly way: Way;
  readonly far: FarSession;
}

async function answer(asked: Asked): Promise<void> {
  const { near, headers, isWhole, passage, way, far } = asked;
  let taken: AskedRequest | null = null;
  let account: Account | null = null;
  try {
    if (passage.failure !== null) throw passage.failure;
    const request = readHttp2Head(headers, passage.target, way.secure ? 'https' : 'http', !isWhole);
    const trailers = trailersOf(near);
    const body = new RequestBody(near, () => {
      if (headers.expect !== undefined) near.additionalHeaders({ ':status': 100 });
    });
    taken = {
      request,
      url: `${headers[':path']}`,
      headers: askedPairs(headers),
      body,
      secure: way.secure,
      signal: untilClosed(near),
    };
    const admitted = await admit(passage, taken);
    if (near.destroyed) throw new AppError('egress_failed', 'The program did not wait for the answer.');
    // Not with CANCEL, which can be held back here until something else is sent.
    const cut = () => near.destroy(new AppError('egress_refused', 'The rules have changed.'));
    account = passage.beginRequest(admitted, cut);
    const session = await far.open();
    if (near.destroyed) return account.end('failed');
    exchange({ ...asked, admitted, body, trailers }, session, account);
  } catch (thrown) {
    if (account === null)
      passage.recordFailure(
        thrown,
        taken?.request ?? { method: `${headers[':method'] ?? ''}`, path: pathOf(headers[':path']) },
      );
    account?.end('failed');
    refuse(near, headers, thrown);
  }
}

interface Exchange extends Asked {
  readonly admitted: Admitted;
  readonly body: RequestBody;
  readonly trailers: Trailers;
}

function exchange(exchanged: Exchange, session: ClientHttp2Session, account: Account): void {
  const { near, headers, isWhole, admitted, body, trailers } = exchanged;
  const stream = session.request(onward(exchanged), { endStream: isWhole, waitForTrailers: !isWhole });
  let status: number | undefined;
  stream.on('headers', (informational) => {
    orDestroy(near, () => {
      const early = headersOf(admitted.scrubbed(answeredPairs(informational)), { ':status': informational[':status'] });
      if (!near.headersSent) near.additionalHeaders(early);
    });
  });
  stream.on('response', (response, flags) => {
    status = Number(response[':status']);
    const isAll = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    if (near.destroyed) {
      stream.close(constants.NGHTTP2_CANCEL);
      return;
    }
    const given = orNull(stream, () => admitted.answer({ status: status ?? 502, headers: answeredPairs(response) }));
    if (given === null) return;
    orDestroy(near, () => {
      near.respond(headersOf(given.headers, { ':status': given.status }), {
        endStream: isAll,
        waitForTrailers: !isAll,
      });
      if (isAll) return;
      sendTrailers(trailersOf(stream), near, admitted.scrubbed);
      if (given.through === null) pipeline(stream, near, () => undefined);
      else pipeline(stream, given.through, near, () => undefined);
    });
  });
  if (!isWhole) {
    sendTrailers(admitted.approvalId === null ? trailers : () => ({}), stream, admitted.trailers);
    const sent = body.stream();
    sent.on('data', (bytes: Buffer) => {
      account.sentBytes += bytes.length;
    });
    pipeline(sent, stream, () => undefined);
  }
  stream.on('data', (bytes: Buffer) => {
    account.receivedBytes += bytes.length;
  });
  let stopped: AppError | null = null;
  stream.on('error', (error: Error) => {
    if (error instanceof AppError) stopped = error;
  });
  stream.on('close', () => {
    const isWell = stopped === null && stream.rstCode === constants.NGHTTP2_NO_ERROR && status !== undefined;
    account.end(isWell ? 'allowed' : stopped?.code === 'egress_refused' ? 'refused' : 'failed', status);
    if (near.destroyed || isWell) return;
    if (near.headersSent) near.destroy(new AppError('egress_failed', 'The host gave the stream up.'));
    else refuse(near, headers, stopped ?? new AppError('egress_failed', 'The connection to the host broke off.'));
  });
  near.on('close', () => {
    if (!stream.destroyed) stream.close(near.rstCode || (stream.readableEnded ? 0 : constants.NGHTTP2_CANCEL));
  });
}

type AnyStream = ServerHttp2Stream | ClientHttp2Stream;

/** Those that came behind a body, when it has ended. */
type Trailers = () => IncomingHttpHeaders;

function trailersOf(from: AnyStream): Trailers {
  let trailers: IncomingHttpHeaders = {};
  from.on('trailers', (received: IncomingHttpHeaders) => {
    trailers = received;
  });
  return () => trailers;
}

/** Sent also when there are none, since that is what ends the stream. */
function sendTrailers(trailers: Trailers, to: AnyStream, seen: (given: readonly Header[]) => readonly Header[]): void {
  to.on('wantTrailers', () => orDestroy(to, () => to.sendTrailers(headersOf(seen(pairsOf(trailers())), {}))));
}

/** What throws in a listener, since a host said what cannot be said again, ends its own stream only. */
function orDestroy(stream: AnyStream, work: () => void): void {
  try {
    work();
  } catch (cause) {
    stream.destroy(asWrong(cause));
  }
}

function orNull<T>(stream: AnyStream, work: () => T): T | null {
  try {
    return work();
  } catch (cause) {
    stream.destroy(asWrong(cause));
    return null;
  }
}

function asWrong(cause: unknown): AppError {
  if (cause instanceof AppError) return cause;
  return new AppError('egress_failed', 'The host did not answer as it should.', { cause });
}

function refuse(near: ServerHttp2Stream, asked: IncomingHttpHeaders, thrown: unknown): void {
  if (near.destroyed || near.headersSent) {
    near.close(constants.NGHTTP2_REFUSED_STREAM);
    return;
  }
  const { status, headers, body } = answerOf(thrown, asked.accept);
  near.respond({ ':status': status, ...headers });
  near.end(asked[':method'] === 'HEAD' ? undefined : body);
}

function onward({ headers, admitted, body }: Exchange): OutgoingHttpHeaders {
  const { ':method': method, ':scheme': scheme, ':authority': authority = headers.host } = headers;
  const pseudo = { ':method': method, ':scheme': scheme, ':path': admitted.url, ':authority': authority };
  return headersOf(
    admitted.headers.filter(([name]) => !body.wasRead || name !== 'expect'),
    pseudo,
  );
}

/** Of an asked one, which names its host by `:authority`. */
function askedPairs(headers: IncomingHttpHeaders): Header[] {
  return pairsOf(headers).filter(([name]) => !isHopByHop(name) && name !== 'host');
}

/** Of an answer, an early one or its trailers. */
function answeredPairs(headers: IncomingHttpHeaders): Header[] {
  return pairsOf(headers).filter(([name]) => !staysBehind(name));
}

/** Without those that HTTP/2 has of its own. */
function pairsOf(headers: IncomingHttpHeaders): Header[] {
  return Object.entries(headers)
    .filter(([name]) => !name.startsWith(':'))
    .flatMap(([name, value]) => [value ?? []].flat().map((one): Header => [name, `${one}`]));
}

function headersOf(pairs: readonly Header[], pseudo: OutgoingHttpHeaders): OutgoingHttpHeaders {
  const headers: Record<string, string[]> = {};
  for (const [name, value] of pairs) {
    const lower = name.toLowerCase();
    headers[lower] = [...(headers[lower] ?? []), value];
  }
  const values = Object.entries(headers).map(([name, [first, ...more]]) => [
    name,
    more.length > 0 ? [first, ...more] : first,
  ]);
  return { ...pseudo, ...Object.fromEntries(values) };
}

/** The session to the host: opened for the first request that may leave, and again when it has ended. */
class FarSession {
  readonly #passage: Passage;
  readonly #way: Way;
  #session: Promise<ClientHttp2Session> | null = null;

  constructor(passage: Passage, way: Way) {
    this.#passage = passage;
    this.#way = way;
  }

  open(): Promise<ClientHttp2Session> {
    this.#session ??= this.#connect();
    return this.#session;
  }

  close(): void {
    void this.#session?.then(
      (session) => session.destroy(),
      () => undefined,
    );
  }

  async #connect(): Promise<ClientHttp2Session> {
    const forget = (): void => {
      this.#session = null;
    };
    try {
      const socket = await this.#way.open();
      const { host, port } = this.#passage.target;
      const name = host.includes(':') ? `[${host}]` : host;
      const session = connect(`${this.#way.secure ? 'https' : 'http'}://${name}:${port}`, {
        createConnection: () => socket,
        settings: { initialWindowSize: WINDOW_BYTES, enablePush: false },
      });
      session.on('error', () => undefined);
      session.on('close', forget);
      session.on('goaway', forget);
      session.once('connect', () => session.setLocalWindowSize(WINDOW_BYTES * 4));
      return session;
    } catch (thrown) {
      forget();
      throw thrown;
    }
  }
}
