/**
 * The door into sandboxes: each request that names one in a header. It is judged here, before anything in the sandbox hears of it:
 * whether the sandbox is there, whether it may be woken, and whether the request has shown what reaching into it takes.
 *
 * - port 49983: what runs commands and keeps files, for who has the token of the sandbox. It is no server in the guest.
 * - any other port: that port of the guest; for everybody where the sandbox says so, else for who has what follows from the token.
 *
 * What the sandbox was reached with does not go into it.
 */
import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex, Writable } from 'node:stream';
import type { UseCases } from '@space/contract';
import {
  AppError,
  type PortConnection,
  type Principal,
  type ProjectId,
  type SandboxId,
  type SandboxStatus,
} from '@space/core';
import {
  FailedAttempts,
  type Forwarded,
  forward,
  forwardUpgrade,
  isEncrypted,
  type Lent,
  parseQuery,
} from '@space/http/parts';
import { createEnvd, type Envd, type EnvdTarget } from '../envd/index.ts';
import { E2bError, errorBodyOf } from '../errors.ts';
import { fromE2bId } from '../sandbox-ids.ts';
import { checkSignature, isSame, trafficTokenOf } from '../tokens.ts';
import { noPort, notFound } from './answers.ts';

const ID_HEADER = 'e2b-sandbox-id';
const PORT_HEADER = 'e2b-sandbox-port';
const TOKEN_HEADER = 'x-access-token';
const TRAFFIC_HEADER = 'e2b-traffic-access-token';
/** They are for us, and not for what listens in the guest. */
const OURS = [ID_HEADER, PORT_HEADER, TOKEN_HEADER, TRAFFIC_HEADER, 'x-api-key'];

const ENVD_PORT = 49_983;
const DEFAULT_USER = 'user';
const PORT = /^[1-9][0-9]{0,4}$/;
const MAX_PORT = 65_535;
const UNAUTHORISED = 'unauthorized access, please provide a valid access token or method signing if supported';

/** A sandbox as the platform shows it to who comes without a key. */
export interface Reach {
  readonly status: SandboxStatus;
  readonly asleep: boolean;
  readonly template: string;
  readonly env: Readonly<Record<string, string>>;
  readonly publicPorts: boolean;
  readonly token: string | null;
  identity(): Promise<{ readonly principal: Principal; readonly projectId: ProjectId } | null>;
  connectPublic(port: number, signal: AbortSignal): Promise<PortConnection>;
}

export interface DoorPlatform {
  readonly useCases: UseCases;
  /** Null: there is no such sandbox. */
  reach(id: SandboxId): Promise<Reach | null>;
}

interface Visit {
  readonly request: IncomingMessage;
  readonly requestId: string;
  readonly signal: AbortSignal;
}

interface Found {
  readonly id: SandboxId;
  readonly given: string;
  readonly port: number;
  readonly reach: Reach;
}

export class Door {
  readonly #platform: DoorPlatform;
  readonly #lent: Lent;
  readonly #envd: Envd;
  readonly #attempts = new FailedAttempts();

  constructor(platform: DoorPlatform, lent: Lent) {
    this.#platform = platform;
    this.#lent = lent;
    this.#envd = createEnvd({ useCases: platform.useCases, logger: lent.logger });
  }

  takes({ headers }: IncomingMessage): boolean {
    return headers[ID_HEADER] !== undefined;
  }

  /** It was paused or deleted, and whoever asks is told so by now. */
  left(id: SandboxId): void {
    this.#envd.disconnect(id);
  }

  close(): void {
    this.#envd.close();
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const visit = this.#visit(request, this.#lent.track(request, response));
    this.#logEnd(visit, response, response);
    void this.#answering(visit, response, async (found) => {
      if (found.port === ENVD_PORT) return this.#toEnvd(found, visit, response);
      await forward(await this.#forwarded(found, visit), response);
    });
  }

  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => undefined);
    const visit = this.#visit(request, this.#lent.trackSocket(socket));
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as Socket);
    response.once('finish', () => socket.end());
    this.#logEnd(visit, response, socket);
    void this.#answering(visit, response, async (found) => {
      if (found.port === ENVD_PORT) throw new E2bError(400, 'There is no WebSocket on this port.');
      await forwardUpgrade(await this.#forwarded(found, visit), { socket, head, response });
    });
  }

  async #answering(visit: Visit, response: ServerResponse, answer: (found: Found) => Promise<void>): Promise<void> {
    const { request, requestId } = visit;
    const given = String(request.headers[ID_HEADER]).slice(0, 100);
    try {
      this.#lent.checkHost(request);
      await answer(await this.#find(given, request));
    } catch (thrown) {
      if (response.headersSent || response.destroyed || response.socket === null) {
        request.socket.destroy();
        return;
      }
      const known = thrown instanceof AppError ? knownAnswer(thrown, given, request) : undefined;
      const body = known ?? errorBodyOf(thrown, (cause) => this.#lent.explain(cause, requestId));
      response.setHeader('x-request-id', requestId);
      send(response, body.code, body);
    }
  }

  async #find(given: string, { headers }: IncomingMessage): Promise<Found> {
    const port = String(headers[PORT_HEADER] ?? '');
    if (!PORT.test(port) || Number(port) > MAX_PORT) throw new E2bError(400, 'E2b-Sandbox-Port must be a port');
    const id = fromE2bId(given);
    const reach = id === undefined ? null : await this.#platform.reach(id);
    if (id === undefined || reach === null || reach.asleep || isAway(reach.status)) {
      throw new AppError('not_found', 'The sandbox was not found');
    }
    return { id, given, port: Number(port), reach };
  }

  async #toEnvd(found: Found, { request, requestId, signal }: Visit, response: ServerResponse): Promise<void> {
    const { id, given, reach } = found;
    const [path = '', search = ''] = (request.url ?? '').split('?', 2);
    if (path === '/health' && request.method === 'GET') {
      // Asking how it is wakes nothing.
      if (reach.status === 'paused' || reach.status === 'pausing') throw new AppError('not_found', 'It is paused.');
      response.writeHead(204).end();
      return;
    }
    this.#checkToken(reach, request, path, search);
    const identity = await reach.identity();
    if (identity === null) throw new E2bError(401, UNAUTHORISED);
    const { template, env } = reach;
    const target: EnvdTarget = {
      caller: { ...identity, requestId, signal },
      sandboxId: id,
      e2bSandboxId: given,
      template,
      defaultUser: DEFAULT_USER,
      env,
    };
    this.#envd.handle(request, response, target);
  }

  #checkToken({ token }: Reach, request: IncomingMessage, path: string, search: string): void {
    const given = request.headers[TOKEN_HEADER];
    const address = request.socket.remoteAddress ?? '';
    this.#attempts.check(address, typeof given === 'string' ? given : undefined);
    if (typeof given === 'string') {
      if (token === null || !isSame(given, token)) {
        this.#attempts.failed(address);
        throw new E2bError(401, UNAUTHORISED);
      }
      this.#attempts.succeeded(given);
      return;
    }
    const { method = '' } = request;
    const mayBeSigned = path === '/files' && (method === 'GET' || method === 'POST');
    if (!mayBeSigned || token === null) throw new E2bError(401, UNAUTHORISED);
    const signed = checkSignature(method, parseQuery(search), token, Date.now());
    if (signed === 'good') {
      // The user is signed, too: nobody else's name counts.
      delete request.headers.authorization;
      return;
    }
    if (signed === 'wrong') this.#attempts.failed(address);
    throw new E2bError(401, SIGNATURE_TEXTS[signed]);
  }

  async #forwarded({ id, port, reach }: Found, { request, requestId, signal }: Visit): Promise<Forwarded> {
    const url = request.url ?? '/';
    if (!url.startsWith('/')) throw new AppError('bad_request', 'The target of the request is no path.');
    const connect = await this.#connector({ id, port, reach }, request, { requestId, signal });
    const encrypted = isEncrypted(request);
    const clientAddress = request.socket.remoteAddress ?? '';
    return {
      request: without(request, OURS),
      way: { form: 'path', port, encrypted, clientAddress },
      target: url,
      connect,
    };
  }

  async #connector(
    { id, port, reach }: Pick<Found, 'id' | 'port' | 'reach'>,
    { headers }: IncomingMessage,
    by: Pick<Visit, 'requestId' | 'signal'>,
  ): Promise<() => Promise<PortConnection>> {
    if (reach.publicPorts) return () => reach.connectPublic(port, by.signal);
    const given = headers[TRAFFIC_HEADER];
    const { token } = reach;
    const isGood = typeof given === 'string' && token !== null && isSame(given, trafficTokenOf(token));
    const identity = isGood ? await reach.identity() : null;
    if (identity === null) {
      throw new E2bError(
        403,
        'Access to this port needs the header e2b-traffic-access-token with the token of the sandbox.',
      );
    }
    return () => this.#platform.useCases.connectPort({ ...identity, ...by }, { id, port });
  }

  #visit(request: IncomingMessage, signal: AbortSignal): Visit {
    return { request, requestId: this.#lent.newRequestId(), signal };
  }

  #logEnd({ requestId, request }: Visit, response: ServerResponse, connection: Writable): void {
    const from = performance.now();
    const route = request.headers[PORT_HEADER] === String(ENVD_PORT) ? 'e2b envd' : 'e2b port';
    connection.once('close', () => {
      const { statusCode: status } = response;
      const { writableFinished: complete } = connection;
      const durationMs = Math.round(performance.now() - from);
      this.#lent.logger.info({ requestId, route, status, complete, durationMs }, 'request');
    });
  }
}

const SIGNATURE_TEXTS = {
  missing: 'missing signature query parameter',
  wrong: 'invalid signature',
  expired: 'signature is already expired',
} as const;

/** Nothing answers there, and nothing will by being asked. */
function isAway(status: SandboxStatus): boolean {
  return status === 'crashed' || status === 'moving' || status === 'moved' || status === 'arriving';
}

/** In their words: the SDKs take a 502 for a sandbox that does not run, so nothing else may be one. */
function knownAnswer(thrown: AppError, given: string, { headers }: IncomingMessage) {
  const { code, facts } = thrown;
  if (code === 'not_found' || code === 'vm_lost' || (code === 'wrong_state' && facts['asleep'] === true)) {
    return notFound(given);
  }
  if (code === 'port_refused') return noPort(given, Number(headers[PORT_HEADER]));
  return undefined;
}

function send(response: ServerResponse, status: number, body: object): void {
  const bytes = Buffer.from(JSON.stringify(body));
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': bytes.length,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    connection: 'close',
  });
  response.end(bytes);
}

/** The same request, without those headers. */
function without(request: IncomingMessage, names: readonly string[]): IncomingMessage {
  const { rawHeaders } = request;
  const kept: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    if (!names.includes(name.toLowerCase())) kept.push(name, value);
  }
  request.rawHeaders = kept;
  return request;
}
