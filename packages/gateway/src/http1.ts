/**
 * HTTP/1.1 of a guest. Each request is judged by itself and streamed; the way out is dialled for the first one that may leave,
 * so that what is refused reaches nobody. An upgrade to WebSocket is a request too, and then bytes both ways.
 */
import {
  Agent,
  createServer,
  type IncomingMessage,
  type InformationEvent,
  request,
  type Server,
  ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError, asAppError } from '@space/core';
import { type Admitted, type AskedRequest, admit, type Header, untilClosed } from './admission.ts';
import { flow } from './flow.ts';
import type { Account, Passage } from './passage.ts';
import { pump } from './pump.ts';
import { answerOf } from './refusal.ts';
import { RequestBody } from './request-body.ts';
import { answerHeaders, pairsOf, pathOf, type RequestHead, readHttp1Head } from './request-head.ts';
import { WebSocketScreen } from './secrets/placeholder-screen.ts';

const MAX_HEAD_BYTES = 64 * 1024;
const RESPONSE_WITHIN_MS = 60 * 60 * 1000;
const KEEP_ALIVE_MS = 120_000;
/** For the other side to close, behind the last answer. */
const LINGER_MS = 2_000;
/** Requests of one connection that wait for their turn; programs that send ahead send some ten. */
const MAX_WAITING = 100;

/** The way out of one connection. */
export interface Way {
  readonly secure: boolean;
  /** A connection to the host, dialled anew when an earlier one has ended. */
  open(): Promise<Duplex>;
}

interface Served {
  readonly passage: Passage;
  readonly way: Way;
  readonly agent: Agent;
  /** Settles when the requests before it have been answered: those that came together are taken one after another. */
  turn: Promise<void>;
  waiting: number;
  /** The last answer is on its way: nothing that still comes is a request. */
  isOver: boolean;
}

export class Http1Front {
  readonly #server: Server;
  readonly #served = new WeakMap<Duplex, Served>();

  constructor() {
    this.#server = createServer({
      maxHeaderSize: MAX_HEAD_BYTES,
      insecureHTTPParser: false,
      requireHostHeader: false,
      // Bodies may take as long as they need; who is idle is cut elsewhere.
      requestTimeout: 0,
      headersTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE_MS,
      noDelay: false,
      shouldUpgradeCallback: isWebSocket,
    });
    this.#server.on('request', (incoming, answer) => this.#take(incoming, answer));
    this.#server.on('checkContinue', (incoming, answer) => this.#take(incoming, answer));
    this.#server.on('checkExpectation', (incoming, answer) => this.#take(incoming, answer));
    this.#server.on('upgrade', (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
      if (head.length > 0) socket.unshift(head);
      const answer = new ServerResponse(incoming);
      answer.shouldKeepAlive = false;
      answer.assignSocket(socket as never);
      answer.on('finish', () => socket.end());
      this.#take(incoming, answer, socket);
    });
    this.#server.on('connect', (_incoming, socket: Duplex) =>
      sayRaw(socket, 403, 'Tunnels inside of a connection are not carried.'),
    );
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
      const served = this.#served.get(socket);
      if (served?.isOver) return void socket.destroy();
      served?.passage.recordFailure(new AppError('egress_refused', 'The request is not well-formed.'));
      sayRaw(socket, 400, `The request is not well-formed (${error.code ?? 'it broke off'}).`);
    });
  }

  /** Settles when the connection has ended. */
  async serve(stream: Duplex, passage: Passage, way: Way): Promise<void> {
    const agent = new Agent({ keepAlive: true, maxSockets: 1, keepAliveMsecs: KEEP_ALIVE_MS });
    agent.createConnection = (_options, done) => {
      way.open().then(
        (socket) => done?.(null, socket),
        (error: Error) => done?.(error, undefined as never),
      );
      return undefined;
    };
    const served: Served = { passage, way, agent, turn: Promise.resolve(), waiting: 0, isOver: false };
    this.#served.set(stream, served);
    // How the server ends a connection behind its last answer.
    Object.assign(stream, { destroySoon: () => linger(served, stream) });
    const closed = new Promise<void>((resolve) => stream.once('close', resolve));
    if (stream.destroyed) return;
    this.#server.emit('connection', stream);
    await closed;
    agent.destroy();
  }

  #take(incoming: IncomingMessage, answer: ServerResponse, upgraded?: Duplex): void {
    const served = this.#served.get(upgraded ?? (incoming.socket as Duplex));
    if (served === undefined) throw new Error('a request came on a connection of nobody');
    if (served.isOver) return void incoming.resume();
    const answered = new Promise<void>((resolve) => answer.once('close', resolve));
    const before = served.turn;
    if (++served.waiting > MAX_WAITING) {
      served.passage.cut(new AppError('egress_refused', 'Too many requests were sent ahead.'));
      return;
    }
    served.turn = before.then(() => answered);
    void before.then(() => {
      served.waiting--;
      if (!answer.destroyed) void this.#answer(served, incoming, answer, upgraded);
    });
  }

  async #answer(served: Served, incoming: IncomingMessage, answer: ServerResponse, upgraded?: Duplex): Promise<void> {
    const { passage, way } = served;
    let asked: AskedRequest | null = null;
    try {
      if (passage.failure !== null) throw passage.failure;
      const { method = '', url = '', rawHeaders } = incoming;
      const form = { method, url, rawHeaders, isUpgrade: upgraded !== undefined };
      // The parser reads nothing behind a request for another protocol, also when it is answered in this one.
      if (upgraded === undefined && incoming.headers.upgrade !== undefined) answer.shouldKeepAlive = false;
      const head = readHttp1Head(form, passage.target, way.secure ? 443 : 80);
      // Whoever waits for `100 Continue` sends nothing before.
      const body = new RequestBody(incoming, () => {
        if (incoming.headers.expect !== undefined) answer.writeContinue();
      });
      const { request, headers } = head;
      asked = { request, url, headers, body, secure: way.secure, signal: untilClosed(answer) };
      const admitted = await admit(passage, asked);
      if (answer.destroyed) throw new AppError('egress_failed', 'The program did not wait for the answer.');
      forward({ ...served, incoming, answer, head, admitted, body, upgraded: upgraded ?? null });
    } catch (thrown) {
      passage.recordFailure(thrown, asked?.request ?? { method: incoming.method ?? '', path: pathOf(incoming.url) });
      if (!answer.destroyed) refuse(incoming, answer, thrown);
    }
  }
}

/** Who still sends when it is closed would be told of a reset, and might not read the answer that says why. */
function linger(served: Served, stream: Duplex): void {
  served.isOver = true;
  stream.end();
  const late = setTimeout(() => stream.destroy(), LINGER_MS);
  stream.once('close', () => clearTimeout(late));
}

interface Forwarding extends Served {
  readonly incoming: IncomingMessage;
  readonly answer: ServerResponse;
  readonly head: RequestHead;
  readonly admitted: Admitted;
  readonly body: RequestBody;
  readonly upgraded: Duplex | null;
}

function forward(forwarding: Forwarding): void {
  const { incoming, answer, head, admitted, body, agent, passage, upgraded } = forwarding;
  const outgoing = request({
    agent: upgraded === null ? agent : onlyOnce(agent),
    method: head.request.method,
    path: admitted.url,
    headers: headersOf(forwarding),
    setHost: false,
    maxHeaderSize: MAX_HEAD_BYTES,
    timeout: RESPONSE_WITHIN_MS,
  });
  const account = passage.beginRequest(admitted, () => {
    outgoing.destroy(new AppError('egress_refused', 'The rules have changed.'));
    passage.guest.destroy();
  });
  let stopped: AppError | null = null;
  const fail = (cause: unknown): void => {
    const thrown = stopped ?? cause;
    account.end(stopped?.code === 'egress_refused' ? 'refused' : 'failed');
    if (answer.headersSent) answer.destroy();
    else refuse(incoming, answer, thrown instanceof AppError ? thrown : brokenOff(passage, thrown));
  };
  outgoing.on('error', fail);
  outgoing.on('timeout', () => outgoing.destroy(new AppError('egress_failed', 'The host did not answer in time.')));
  outgoing.on('continue', () => answer.writeContinue());
  outgoing.on('information', (early) => orDestroy(answer, () => giveEarly(early, forwarding)));
  outgoing.on('response', (response) => {
    // What a host says may be more than can be said again: then it has not answered as it should.
    try {
      giveBack(response, forwarding, account);
    } catch (thrown) {
      outgoing.destroy();
      fail(thrown);
    }
  });
  outgoing.on('upgrade', (response, socket: Duplex, early: Buffer) => {
    if (upgraded === null) {
      socket.destroy();
      fail(new Error('the host has switched to another protocol, which nobody asked for'));
      return;
    }
    if (early.length > 0) socket.unshift(early);
    answer.detachSocket(upgraded as never);
    const given = switched(response, admitted);
    upgraded.write(given.head);
    const screen = new WebSocketScreen();
    void pump({ passage, guest: upgraded, far: socket, account, status: 101, screen, through: given.through });
  });
  answer.on('close', () => {
    if (!answer.writableFinished) outgoing.destroy();
  });
  if (upgraded !== null) {
    outgoing.end();
    return;
  }
  if (!head.request.hasBody) {
    outgoing.end();
    return;
  }
  // Whoever waits for `100 Continue` sends nothing before; the host must hear of the request all the same.
  if (incoming.headers.expect !== undefined) outgoing.flushHeaders();
  const sent = body.stream();
  // A request that is given up says no more why.
  sent.once('error', (error) => {
    if (error instanceof AppError) stopped = error;
  });
  sent.on('end', () => {
    try {
      // A reviewer was shown none.
      if (admitted.approvalId !== null) return;
      outgoing.addTrailers(written(admitted.trailers(pairedTrailers(incoming))));
    } catch (thrown) {
      stopped = asAppError(thrown);
      outgoing.destroy(stopped);
    }
  });
  const see = (bytes: number): void => {
    account.sentBytes += bytes;
  };
  const done = (error: Error | null): void => {
    if (error === null) return;
    outgoing.destroy();
    // The rest of the guest's own is thrown away where it is told why.
    if (sent !== incoming) sent.destroy();
  };
  flow({ from: sent, to: outgoing, see, done });
}

/** As they leave, with those that the connection needs. */
function headersOf({ admitted, head, body, upgraded }: Forwarding): string[] {
  const headers = admitted.headers.filter(([name]) => !body.wasRead || name.toLowerCase() !== 'expect');
  const has = (wanted: string) => headers.some(([name]) => name.toLowerCase() === wanted);
  const isChunked = head.isChunked && admitted.approvalId === null;
  const framing: Header[] = isChunked ? [['Transfer-Encoding', 'chunked']] : [];
  if (upgraded !== null) framing.push(['Connection', 'Upgrade']);
  else if (!has('content-length') && !isChunked && !['GET', 'HEAD'].includes(head.request.method)) {
    framing.push(['Content-Length', '0']);
  }
  return [...headers, ...framing].flat();
}

function giveBack(response: IncomingMessage, { answer, admitted, upgraded }: Forwarding, account: Account): void {
  const { statusCode: status = 502, statusMessage = '', rawHeaders } = response;
  checkCoding(response);
  const given = admitted.answer({ status, headers: answerHeaders(rawHeaders) });
  answer.sendDate = false;
  const closes = upgraded === null ? [] : ['Connection', 'close'];
  const [[, said] = ['', '']] = admitted.scrubbed([['', statusMessage]]);
  answer.writeHead(given.status, said.replace(/[^\x20-\x7e]/g, '?'), [...given.headers.flat(), ...closes]);
  // With the first bytes of the body where those are there already, and alone where they are waited for.
  setImmediate(() => {
    if (!answer.writableEnded && !answer.destroyed) answer.flushHeaders();
  });
  response.on('end', () => {
    if (answer.chunkedEncoding) {
      orDestroy(answer, () => answer.addTrailers(written(admitted.scrubbed(pairedTrailers(response)))));
    }
  });
  const see = (bytes: number): void => {
    account.receivedBytes += bytes;
  };
  const done = (error: Error | null): void => {
    account.end(error === null ? 'allowed' : 'failed', status);
    if (error === null) return;
    answer.destroy();
    response.destroy();
    given.through?.destroy();
  };
  const { through } = given;
  if (through === null) flow({ from: response, to: answer, see, done });
  else {
    const passed = (error: Error | null): void => (error === null ? undefined : done(error));
    flow({ from: response, to: through, see, done: passed });
    flow({ from: through, to: answer, see: () => undefined, done });
  }
}

/** Hints that come ahead of the answer; which ones there are is Node's to say. A client of HTTP/1.0 would take one for the answer. */
function giveEarly({ statusCode, rawHeaders }: InformationEvent, { incoming, answer, admitted }: Forwarding): void {
  if (answer.headersSent || incoming.httpVersion === '1.0') return;
  if (statusCode === 102) answer.writeProcessing();
  if (statusCode !== 103) return;
  const given = admitted
    .scrubbed(answerHeaders(rawHeaders))
    .map(([name, value]) => [name.toLowerCase(), value] as const);
  const link = given.filter(([name]) => name === 'link').map(([, value]) => value);
  if (link.length > 0) answer.writeEarlyHints({ ...Object.fromEntries(given), link });
}

/** Of a connection, so it is not handed on: what came in another coding would come without a word of it, and be read by nobody. */
function checkCoding({ headers }: IncomingMessage): void {
  const coding = headers['transfer-encoding']?.trim().toLowerCase() ?? 'chunked';
  if (coding === 'chunked') return;
  throw new AppError('egress_failed', 'The host answered in a transfer encoding that nobody has asked for.');
}

function refuse(incoming: IncomingMessage, answer: ServerResponse, thrown: unknown): void {
  const { status, headers, body } = answerOf(thrown, incoming.headers.accept);
  // What is left of the request is not read, so nothing can follow it.
  answer.writeHead(status, STATUS_CODES[status] ?? '', { ...headers, connection: 'close' });
  answer.end(incoming.method === 'HEAD' ? undefined : body);
  incoming.resume();
}

/** Also what throws in a listener must end its own connection only. */
function orDestroy(stream: { destroy(): unknown }, work: () => void): void {
  try {
    work();
  } catch {
    stream.destroy();
  }
}

function brokenOff({ target }: Passage, cause: unknown): AppError {
  return new AppError('egress_failed', `The connection to ${target.host} broke off.`, { cause });
}

function isWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket';
}

/** The connection of an upgrade is not used for another request. */
function onlyOnce({ createConnection }: Agent): Agent {
  const agent = new Agent({ keepAlive: false, maxSockets: 1 });
  agent.createConnection = createConnection;
  return agent;
}

function pairedTrailers({ rawTrailers }: IncomingMessage): Header[] {
  return pairsOf(rawTrailers).map(([, value, name]) => [name, value]);
}

function written(headers: readonly Header[]): [string, string][] {
  return headers.map(([name, value]) => [name, value]);
}

/** What says to the guest that the protocol is another one from here on. */
function switched({ statusCode = 101, rawHeaders }: IncomingMessage, admitted: Admitted) {
  const said = pairsOf(rawHeaders).map(([, value, name]): Header => [name, value]);
  const { headers: given, through } = admitted.answer({ status: statusCode, headers: said });
  const headers = given.map(([name, value]) => `${name}: ${value}\r\n`);
  return { head: `HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode] ?? ''}\r\n${headers.join('')}\r\n`, through };
}

function sayRaw(socket: Duplex, status: number, text: string): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const { body, headers } = answerOf(new AppError('egress_refused', text), undefined);
  const lines = Object.entries({ ...headers, connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} Refused\r\n${lines.join('')}\r\n${body}`, () => socket.destroy());
}
