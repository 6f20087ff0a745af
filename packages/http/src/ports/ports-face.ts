/**
 * Everything that reaches into ports of sandboxes, in three forms:
 *
 *     3000-sbx-….localhost/any/path              a preview: the guest's own origin, for browsers; key, share or cookie
 *     /v1/sandboxes/{id}/ports/3000/http/any     the same below the API, for programs that have a key
 *     /v1/sandboxes/{id}/ports/5432/tcp          raw bytes, by `Upgrade: tcp`
 *
 * It stands beside the framework, since it passes on what it is given, and the connection itself where that is taken over.
 */

import { type IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex, Writable } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { type Input, ProtocolError, ROUTES, type UseCases } from '@space/contract';
import { AppError, type PortConnection } from '@space/core';
import type { FastifyBaseLogger } from 'fastify';
import type { Authenticate, Identity } from '../auth.ts';
import { bearerCredentials, identify } from '../auth.ts';
import { FailedAttempts } from '../failed-attempts.ts';
import { refusalOf } from '../hosts.ts';
import type { InFlight } from '../in-flight.ts';
import { parsePart } from '../input.ts';
import { noSuchRoute } from '../not-found.ts';
import { explain, problemHeaders } from '../problems.ts';
import { credentialIn, shareCookie, takeShareFrom } from './credentials.ts';
import { type Forwarded, forward, forwardUpgrade, join, switchingHead } from './forward.ts';
import type { Way } from './headers.ts';
import { PortStream } from './port-stream.ts';
import type { Preview, PreviewNames } from './preview-names.ts';
import { sendPreviewProblem } from './problem-page.ts';

/** What a token opens. */
export interface OpenedShare {
  readonly expiresAt: Date;
  connect(signal: AbortSignal): Promise<PortConnection>;
}

/** Null: the token is not good for that port. */
export type OpenShare = (token: string, preview: Preview) => Promise<OpenedShare | null>;

/** Null: the port is not open to everybody. */
export type OpenPublic = (preview: Preview) => Promise<Pick<OpenedShare, 'connect'> | null>;

export interface PortsFaceOptions {
  readonly useCases: UseCases;
  readonly authenticate: Authenticate;
  readonly openShare: OpenShare;
  readonly openPublic: OpenPublic;
  readonly names: PreviewNames;
  readonly isOurHost: (host: string | undefined) => boolean;
  readonly attempts: FailedAttempts;
  readonly inFlight: InFlight;
  readonly logger: FastifyBaseLogger;
  readonly newRequestId: () => string;
}

type Target =
  | { readonly kind: 'preview'; readonly preview: Preview }
  | {
      readonly kind: 'path';
      readonly id: string;
      readonly port: string;
      readonly rest: string;
      readonly prefix: string;
    }
  | { readonly kind: 'tcp'; readonly id: string; readonly port: string };

interface Visit {
  readonly request: IncomingMessage;
  readonly requestId: string;
  readonly signal: AbortSignal;
  /** Undefined: it is for no port. */
  readonly target: Target | undefined;
}

const PATH_FORM = /^(\/v1\/sandboxes\/([^/?]+)\/ports\/([^/?]+)\/http)([/?].*)?$/s;
const TCP_PATH = /^\/v1\/sandboxes\/([^/?]+)\/ports\/([^/?]+)\/tcp$/;

export class PortsFace {
  readonly #options: PortsFaceOptions;
  /** Of tokens: an old tab that asks on and on must not keep keys from being tried. */
  readonly #attempts = new FailedAttempts();

  constructor(options: PortsFaceOptions) {
    this.#options = options;
  }

  /** Whether a plain request is for a port. */
  takes(request: IncomingMessage): boolean {
    const kind = this.#targetOf(request)?.kind;
    return kind === 'preview' || kind === 'path';
  }

  /** Whether a request that would change the protocol may: others are answered as if they had not asked. */
  takesUpgrade(request: IncomingMessage): boolean {
    const protocol = request.headers.upgrade?.toLowerCase();
    const kind = this.#targetOf(request)?.kind;
    return kind === 'tcp' ? protocol === 'tcp' : kind !== undefined && protocol === 'websocket';
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const signal = this.#options.inFlight.track(request, response);
    const visit = this.#visitOf(request, signal);
    this.#logEnd(visit, response, response);
    await this.#answering(visit, response, async (target) => {
      if (target.kind === 'tcp') throw upgradeRequired();
      const call = await this.#callOf(target, visit, response);
      if (call !== undefined) await forward(call, response);
    });
  }

  async handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => undefined);
    const signal = this.#options.inFlight.trackSocket(socket);
    const visit = this.#visitOf(request, signal);
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as Socket);
    response.once('finish', () => socket.end());
    this.#logEnd(visit, response, socket);
    await this.#answering(visit, response, async (target) => {
      if (target.kind === 'tcp') return this.#tcp(target, visit, { socket, head, response });
      const call = await this.#callOf(target, visit, undefined);
      if (call !== undefined) await forwardUpgrade(call, { socket, head, response });
    });
  }

  async #answering(visit: Visit, response: ServerResponse, answer: (target: Target) => Promise<void>): Promise<void> {
    const { request, requestId, target } = visit;
    try {
      if (target === undefined) throw noSuchRoute(request.url ?? '');
      await answer(target);
    } catch (thrown) {
      if (response.headersSent || response.destroyed || response.socket === null) {
        request.socket.destroy();
        return;
      }
      const problem = explain(thrown, requestId, this.#options.logger);
      for (const [name, value] of Object.entries(problemHeaders(problem, thrown))) response.setHeader(name, value);
      response.setHeader('x-request-id', requestId);
      sendPreviewProblem(response, problem, request.headers.accept);
    }
  }

  #visitOf(request: IncomingMessage, signal: AbortSignal): Visit {
    return { request, requestId: this.#options.newRequestId(), signal, target: this.#targetOf(request) };
  }

  #targetOf({ url = '', headers: { host } }: IncomingMessage): Target | undefined {
    const preview = this.#options.names.previewIn(host);
    if (preview !== undefined) return { kind: 'preview', preview };
    const [, prefix, id, port, rest] = PATH_FORM.exec(url) ?? [];
    if (prefix !== undefined && id !== undefined && port !== undefined) {
      return { kind: 'path', id, port, prefix, rest: rest?.startsWith('/') ? rest : `/${rest ?? ''}` };
    }
    const [, tcpId, tcpPort] = TCP_PATH.exec(url) ?? [];
    return tcpId === undefined || tcpPort === undefined ? undefined : { kind: 'tcp', id: tcpId, port: tcpPort };
  }

  /** For the browser: here, or up to a proxy. */
  #isEncrypted(request: IncomingMessage): boolean {
    return isEncrypted(request) || this.#options.names.isEncrypted(request.headers.host);
  }

  /** Undefined: it was answered already. */
  async #callOf(
    target: Exclude<Target, { readonly kind: 'tcp' }>,
    visit: Visit,
    response: ServerResponse | undefined,
  ): Promise<Forwarded | undefined> {
    const { request } = visit;
    const encrypted = this.#isEncrypted(request);
    const common = { encrypted, clientAddress: addressOf(request) };
    if (target.kind === 'path') {
      const { caller, input } = await this.#byKey(target, visit);
      const way: Way = { ...common, form: 'path', port: input.port, prefix: target.prefix };
      return { request, way, target: target.rest, connect: () => this.#options.useCases.connectPort(caller, input) };
    }
    const { preview } = target;
    const url = request.url ?? '/';
    if (!url.startsWith('/')) throw new AppError('bad_request', 'The target of the request is no path.');
    if (response !== undefined && (await this.#tookShare(preview, visit, response))) return undefined;
    const connect = await this.#accessTo(preview, visit);
    return { request, way: { ...common, form: 'host', port: preview.port }, target: url, connect };
  }

  /** A visit with a token in its query: the token becomes a cookie, and leaves the address. */
  async #tookShare(preview: Preview, { request }: Visit, response: ServerResponse): Promise<boolean> {
    const taken = takeShareFrom(request.url ?? '');
    if (taken === undefined || (request.method !== 'GET' && request.method !== 'HEAD')) return false;
    const { expiresAt } = await this.#share(taken.token, preview, request);
    const seconds = Math.max(1, Math.floor((expiresAt.getTime() - Date.now()) / 1000));
    response.writeHead(303, {
      location: taken.rest,
      'set-cookie': shareCookie(taken.token, this.#isEncrypted(request), seconds),
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
    });
    response.end();
    return true;
  }

  async #accessTo(preview: Preview, { request, requestId, signal }: Visit): Promise<() => Promise<PortConnection>> {
    const credential = credentialIn(request.method, request.headers, this.#isEncrypted(request));
    if (credential === undefined) {
      const open = await this.#options.openPublic(preview);
      if (open !== null) return () => open.connect(signal);
      throw new AppError('unauthenticated', 'This preview is private: open it by the URL of a share, or send a key.');
    }
    if (credential.kind === 'share') {
      const share = await this.#share(credential.secret, preview, request);
      return () => share.connect(signal);
    }
    const headers = { ...request.headers, authorization: `Bearer ${credential.secret}` };
    const identity = await this.#identify(headers, request, this.#attempts);
    const caller = { ...identity, requestId, signal };
    const { sandboxId: id, port } = preview;
    return () => this.#options.useCases.connectPort(caller, { id, port });
  }

  async #share(token: string, preview: Preview, request: IncomingMessage): Promise<OpenedShare> {
    const address = addressOf(request);
    this.#attempts.check(address, token);
    const share = await this.#options.openShare(token, preview);
    if (share === null) {
      this.#attempts.failed(address);
      throw new AppError('unauthenticated', 'The share is not known, or has ended.');
    }
    this.#attempts.succeeded(token);
    return share;
  }

  async #byKey({ id, port }: { readonly id: string; readonly port: string }, { request, requestId, signal }: Visit) {
    const { host } = request.headers;
    if (!this.#options.isOurHost(host)) throw new ProtocolError('host_refused', refusalOf(host));
    const identity = await this.#identify(request.headers, request, this.#options.attempts);
    const input = parsePart(ROUTES.connectPort.params, { id: decoded(id), port }, 'path') as Input<'connectPort'>;
    return { caller: { ...identity, requestId, signal }, input };
  }

  #identify(
    headers: IncomingMessage['headers'],
    request: IncomingMessage,
    attempts: FailedAttempts,
  ): Promise<Identity> {
    return identify(bearerCredentials(headers), addressOf(request), this.#options.authenticate, attempts);
  }

  async #tcp(
    target: Extract<Target, { readonly kind: 'tcp' }>,
    visit: Visit,
    { socket, head, response }: { readonly socket: Duplex; readonly head: Buffer; readonly response: ServerResponse },
  ): Promise<void> {
    const { caller, input } = await this.#byKey(target, visit);
    const stream = new PortStream(await this.#options.useCases.connectPort(caller, input));
    response.statusCode = 101;
    response.detachSocket(socket as Socket);
    socket.write(switchingHead(['Connection', 'Upgrade', 'Upgrade', 'tcp']));
    if (head.length > 0) stream.write(head);
    // Cut on one side is cut on the other.
    stream.once('error', () => cut(socket));
    await join(socket, stream);
  }

  /** `connection` is what closes at the end: the answer, or the socket, which an answer lets go of when it is taken over. */
  #logEnd({ requestId, target }: Visit, response: ServerResponse, connection: Writable): void {
    const from = performance.now();
    const form = target?.kind ?? null;
    connection.once('close', () => {
      const { statusCode: status } = response;
      const { writableFinished: complete } = connection;
      const durationMs = Math.round(performance.now() - from);
      this.#options.logger.info({ requestId, route: 'port', form, status, complete, durationMs }, 'request');
    });
  }
}

export function upgradeRequired(): ProtocolError {
  return new ProtocolError('upgrade_required', undefined, { upgrade: 'tcp', connection: 'Upgrade' });
}

/** Also by a stream of a connection that carries many. */
export const isEncrypted = ({ socket }: IncomingMessage): boolean => 'encrypted' in socket && socket.encrypted === true;
const addressOf = ({ socket }: IncomingMessage): string => socket.remoteAddress ?? '';

/** By a reset where that is possible: not over TLS, and not when our end is on its way already. */
function cut(socket: Duplex): void {
  if (socket instanceof TLSSocket || !(socket instanceof Socket) || socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (cause) {
    throw new AppError('bad_request', 'path: not valid percent-encoded UTF-8', { cause });
  }
}
