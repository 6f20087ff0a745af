/**
 * The door into sandboxes: each request that names one, by the host that it is for, or in a header. It is judged here, before anything in the sandbox hears of it:
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
import { FailedAttempts, type Forwarded, forward, forwardUpgrade, isEncrypted, type Lent } from '@space/http/parts';
import { answerPreflight, FOR_ALL_ORIGINS, isPreflight } from '../cors.ts';
import { createEnvd, type Envd, type EnvdTarget } from '../envd/index.ts';
import { E2bError, errorBodyOf } from '../errors.ts';
import { fromE2bId, toE2bId } from '../sandbox-ids.ts';
import { targetOf } from '../target.ts';
import { checkSignature, isSame, trafficTokenOf } from '../tokens.ts';
import { noPort, notFound, pageOf } from './answers.ts';

/** `3000-sbx0123456789abcdef`, and what is no sandbox at all; ours have another dash. */
const LABEL = /^([0-9]{1,5})-((?!sbx-)[0-9a-z][0-9a-z-]{0,61})$/;
const ID_HEADER = 'e2b-sandbox-id';
const PORT_HEADER = 'e2b-sandbox-port';
const TOKEN_HEADER = 'x-access-token';
const TRAFFIC_HEADER = 'e2b-traffic-access-token';
const ENVD_PORT = 49_983;
const DEFAULT_USER = 'user';
const PORT = /^[1-9][0-9]{0,4}$/;
const MAX_PORT = 65_535;
/** Of how many sandboxes a signature is looked for, newest first: each is a digest of some bytes. */
const MAX_SIGNERS = 5_000;
const UNAUTHORISED = 'unauthorized access, please provide a valid access token or method signing if supported';

/** A sandbox as the platform shows it to who comes without a key. */
export interface Reach {
  readonly status: SandboxStatus;
  readonly asleep: boolean;
  /** Whether a use of it begins a run when it is paused. */
  readonly wakeOnUse: boolean;
  /** It is paused, and boots when it goes on: then no use begins a run. */
  readonly keptFilesOnly: boolean;
  readonly template: string;
  readonly defaults: { readonly user: string | null; readonly cwd: string | null };
  readonly env: Readonly<Record<string, string>>;
  readonly publicPorts: boolean;
  readonly token: string | null;
  readonly identity: { readonly principal: Principal; readonly projectId: ProjectId } | null;
  connectPublic(port: number, signal: AbortSignal): Promise<PortConnection>;
}

export interface DoorPlatform {
  readonly useCases: UseCases;
  /** Null: there is no such sandbox. */
  reach(id: SandboxId): Promise<Reach | null>;
  /** Whose token `isIt` knows, among so many; null: nobody's. */
  findByToken(isIt: (token: string) => boolean, limit: number): Promise<SandboxId | null>;
}

/** What a request names: a port of a sandbox. */
interface Named {
  readonly by: 'host' | 'header' | 'signature';
  /** As it is given, which need not be an id. */
  readonly given: string;
  readonly port: string;
}

interface Visit {
  readonly named: Named;
  readonly request: IncomingMessage;
  readonly requestId: string;
  readonly signal: AbortSignal;
}

interface Found {
  readonly id: SandboxId;
  readonly port: number;
  readonly reach: Reach;
}

export class Door {
  readonly #platform: DoorPlatform;
  readonly #lent: Lent;
  readonly #envd: Envd;
  readonly #attempts = new FailedAttempts();
  readonly #searches = new FailedAttempts();

  constructor(platform: DoorPlatform, lent: Lent) {
    this.#platform = platform;
    this.#lent = lent;
    this.#envd = createEnvd({ useCases: platform.useCases, logger: lent.logger });
  }

  takes(request: IncomingMessage): boolean {
    return this.#namedIn(request) !== undefined;
  }

  /** A name of a host says it by itself; any other has to be one of ours, and a header says it. */
  #namedIn({ headers, url = '' }: IncomingMessage): Named | undefined {
    const [, port, given] = LABEL.exec(this.#lent.names.labelIn(headers.host) ?? '') ?? [];
    if (port !== undefined && given !== undefined) return { by: 'host', given, port };
    if (headers[ID_HEADER] === undefined) {
      // The URLs that the SDKs sign name no sandbox where all are at one address: whose token has signed is whose it is.
      return isSigned(url) ? { by: 'signature', given: '', port: String(ENVD_PORT) } : undefined;
    }
    return { by: 'header', given: String(headers[ID_HEADER]).slice(0, 100), port: String(headers[PORT_HEADER] ?? '') };
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
      await forward(this.#forwarded(found, visit), response);
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
      await forwardUpgrade(this.#forwarded(found, visit), { socket, head, response });
    });
  }

  async #answering(visit: Visit, response: ServerResponse, answer: (found: Found) => Promise<void>): Promise<void> {
    const { request, requestId, named } = visit;
    try {
      if (named.by !== 'host') this.#lent.checkHost(request);
      await answer(await (named.by === 'signature' ? this.#findSigned(visit) : this.#find(named)));
    } catch (thrown) {
      if (response.headersSent || response.destroyed || response.socket === null) {
        request.socket.destroy();
        return;
      }
      const known = thrown instanceof AppError ? knownAnswer(thrown, named) : undefined;
      const body = known ?? errorBodyOf(thrown, (cause) => this.#lent.explain(cause, requestId));
      response.setHeader('x-request-id', requestId);
      send(response, body.code, body, request.headers.accept);
    }
  }

  async #find({ given, port }: Named): Promise<Found> {
    if (!PORT.test(port) || Number(port) > MAX_PORT) throw new E2bError(400, 'E2b-Sandbox-Port must be a port');
    const id = fromE2bId(given);
    const reach = id === undefined ? null : await this.#platform.reach(id);
    if (id === undefined || reach === null || reach.asleep || reach.keptFilesOnly || isAway(reach.status)) {
      throw new AppError('not_found', 'The sandbox was not found');
    }
    return { id, port: Number(port), reach };
  }

  /** Throws as a wrong signature does, also where there are more sandboxes than are looked at. */
  async #findSigned({ request }: Visit): Promise<Found> {
    const { method = '' } = request;
    const { searchParams: query } = targetOf(request);
    const isPreflightOf = isPreflight(request) ? request.headers['access-control-request-method'] : undefined;
    const signs = (token: string) => {
      const signed = checkSignature(isPreflightOf ?? method, query, token, Date.now());
      return signed === 'good' || signed === 'expired';
    };
    // It costs more than a look at one token: so here who fails has to wait before, and others at the same address with them.
    this.#searches.check(addressOf(request), undefined);
    const id = await this.#platform.findByToken(signs, MAX_SIGNERS);
    if (id !== null) return this.#find({ by: 'signature', given: toE2bId(id), port: String(ENVD_PORT) });
    this.#searches.failed(addressOf(request));
    throw new E2bError(401, SIGNATURE_TEXTS.wrong);
  }

  async #toEnvd(found: Found, visit: Visit, response: ServerResponse): Promise<void> {
    const { id, reach } = found;
    const { request, requestId, signal } = visit;
    if (isPreflight(request)) return answerPreflight(request, response);
    const { pathname: path, searchParams: query } = targetOf(request);
    const isPaused = reach.status === 'paused' || reach.status === 'pausing';
    // Asking how it is wakes nothing.
    if (isPaused && (path === '/health' || path === '/metrics')) throw new AppError('not_found', 'It is paused.');
    if (path === '/health' && request.method === 'GET') {
      response.writeHead(204, FOR_ALL_ORIGINS).end();
      return;
    }
    this.#checkToken(reach, request, path, query);
    const { identity } = reach;
    if (identity === null) throw new E2bError(401, UNAUTHORISED);
    const { template, env, defaults } = reach;
    const caller = { ...identity, requestId, signal };
    // Their clients expect it of each request, also of one that only looks, as a list of processes.
    if (isPaused && reach.wakeOnUse) await this.#platform.useCases.resumeSandbox(caller, { id });
    const target: EnvdTarget = {
      caller,
      sandboxId: id,
      e2bSandboxId: toE2bId(id),
      template,
      defaultUser: defaults.user ?? DEFAULT_USER,
      defaultCwd: defaults.cwd,
      env,
    };
    this.#envd.handle(request, response, target);
  }

  #checkToken({ token }: Reach, request: IncomingMessage, path: string, query: URLSearchParams): void {
    const given = request.headers[TOKEN_HEADER];
    if (typeof given === 'string') {
      if (token !== null && isSame(given, token)) return;
      this.#slowDown(request);
      throw new E2bError(401, UNAUTHORISED);
    }
    const { method = '' } = request;
    const mayBeSigned = path === '/files' && (method === 'GET' || method === 'POST');
    if (!mayBeSigned || token === null) throw new E2bError(401, UNAUTHORISED);
    const signed = checkSignature(method, query, token, Date.now());
    if (signed === 'good') {
      // The user is signed, too: nobody else's name counts.
      delete request.headers.authorization;
      return;
    }
    if (signed === 'wrong') this.#slowDown(request);
    throw new E2bError(401, SIGNATURE_TEXTS[signed]);
  }

  /** Who has what is right is served, whatever others at the same address try. Throws `too_many_attempts`. */
  #slowDown(request: IncomingMessage): void {
    const address = addressOf(request);
    this.#attempts.check(address, undefined);
    this.#attempts.failed(address);
  }

  #forwarded({ id, port, reach }: Found, visit: Visit): Forwarded {
    const { request, requestId, signal, named } = visit;
    const url = request.url ?? '/';
    if (!url.startsWith('/')) throw new AppError('bad_request', 'The target of the request is no path.');
    const connect = this.#connector({ id, port, reach }, request, { requestId, signal });
    const encrypted = isEncrypted(request) || this.#lent.names.isEncrypted(request.headers.host);
    const form = named.by === 'host' ? 'host' : 'path';
    const clientAddress = addressOf(request);
    return {
      request,
      way: { form, port, encrypted, clientAddress },
      target: url,
      connect,
    };
  }

  #connector(
    { id, port, reach }: Pick<Found, 'id' | 'port' | 'reach'>,
    { headers }: IncomingMessage,
    by: Pick<Visit, 'requestId' | 'signal'>,
  ): () => Promise<PortConnection> {
    if (reach.publicPorts) return () => reach.connectPublic(port, by.signal);
    const given = headers[TRAFFIC_HEADER];
    const { token } = reach;
    const isGood = typeof given === 'string' && token !== null && isSame(given, trafficTokenOf(token));
    const identity = isGood ? reach.identity : null;
    if (identity === null) {
      throw new E2bError(
        403,
        'Access to this port needs the header e2b-traffic-access-token with the token of the sandbox.',
      );
    }
    return () => this.#platform.useCases.connectPort({ ...identity, ...by }, { id, port });
  }

  #visit(request: IncomingMessage, signal: AbortSignal): Visit {
    const named = this.#namedIn(request);
    if (named === undefined) throw new Error('it was taken since it names a sandbox');
    return { named, request, requestId: this.#lent.newRequestId(), signal };
  }

  #logEnd({ requestId, named }: Visit, response: ServerResponse, connection: Writable): void {
    const from = performance.now();
    const route = named.port === String(ENVD_PORT) ? 'e2b envd' : 'e2b port';
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

function addressOf({ socket }: IncomingMessage): string {
  return socket.remoteAddress ?? '';
}

function isSigned(url: string): boolean {
  return url.startsWith('/files?') && /[?&]signature=/.test(url);
}

/** Nothing answers there, and nothing will by being asked. */
function isAway(status: SandboxStatus): boolean {
  return status === 'crashed' || status === 'moving' || status === 'moved' || status === 'arriving';
}

/** In their words: the SDKs take a 502 for a sandbox that does not run, so nothing else may be one. */
function knownAnswer(thrown: AppError, { given, port }: Named) {
  const { code, facts } = thrown;
  if (code === 'not_found' || code === 'vm_lost' || (code === 'wrong_state' && facts['asleep'] === true)) {
    return notFound(given);
  }
  if (code === 'port_refused') return noPort(given, Number(port));
  return undefined;
}

function send(
  response: ServerResponse,
  status: number,
  body: { readonly message: string },
  accept: string | undefined,
): void {
  const asPage = accept?.includes('text/html') === true;
  const bytes = Buffer.from(asPage ? pageOf(status, body.message) : JSON.stringify(body));
  response.writeHead(status, {
    ...FOR_ALL_ORIGINS,
    'content-type': asPage ? 'text/html; charset=utf-8' : 'application/json',
    'content-length': bytes.length,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(asPage ? { 'content-security-policy': "default-src 'none'; sandbox" } : {}),
    connection: 'close',
  });
  response.end(bytes);
}
