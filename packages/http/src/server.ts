/**
 * The HTTP server: the contract's routes, bound to the use-cases. Every request passes, in this order: host check, key,
 * input by the contract; then its use-case runs. Every error leaves as a problem. The framework routes and sends; bodies
 * are read and streamed by our own code, since their pace is the point.
 *
 * Invariants: no route but the open ones runs without a principal; nothing is buffered without a limit; a client that
 * vanishes aborts its call's signal.
 */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import {
  type Caller,
  ProtocolError,
  problemCodesOf,
  ROUTE_NAMES,
  ROUTES,
  type Route,
  type RouteName,
  schemas,
  toProblem,
  type UseCases,
  VERSION_HEADER_NAME,
} from '@space/contract';
import {
  type ApiKeyId,
  DEFAULT_ORGANISATION,
  DEFAULT_PROJECT,
  NO_TRACES,
  type SpanAttributes,
  type SpanStart,
  type Tracer,
} from '@space/core';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { Logger } from 'pino';
import { ANSWERS, type Answer } from './answers.ts';
import { type Authenticate, bearerCredentials, type Identity, identify } from './auth.ts';
import type { Call, CallServer } from './call.ts';
import type { Face, Lent, MakeFace } from './face.ts';
import { FailedAttempts } from './failed-attempts.ts';
import { createHostCheck, hostNameIn, isLoopback, refusalOf } from './hosts.ts';
import { InFlight } from './in-flight.ts';
import { checkBodyIsWanted, idempotencyKeyIn, readInput } from './input.ts';
import * as limits from './limits.ts';
import { createLogger } from './logger.ts';
import { createNodeServer, type Tls } from './node-server.ts';
import { noSuchRoute } from './not-found.ts';
import { ClientGone } from './outgoing.ts';
import { isEncrypted, type OpenPublic, type OpenShare, PortsFace } from './ports/ports-face.ts';
import { type NamesBase, namesBaseOf, PreviewNames } from './ports/preview-names.ts';
import { answerClientError, explain, sendProblem, translate } from './problems.ts';
import { answerAsync, prefersAsync } from './respond-async.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    routeName?: RouteName;
  }
  interface FastifyRequest {
    identity: Identity | null;
    gone: AbortSignal | null;
  }
}

export interface HttpServerOptions {
  readonly useCases: UseCases;
  readonly authenticate: Authenticate;
  /** See `createLogger`, which redacts keys. */
  readonly logger: Logger;
  /** Of the platform, as GET /healthz gives it. */
  readonly version: string;
  /** Names and addresses that the server answers for beside loopback ones, without port. */
  readonly hosts?: readonly string[];
  readonly tls?: Tls;
  /**
   * What names of the API (`api.NAME`) and of ports of sandboxes end in, all of them reached by TLS; `port`: where they are, when it
   * is not the one that this server listens on.
   */
  readonly domain?: { readonly name: string; readonly port?: number };
  /** The base of the names of previews, when there is no domain, e.g. `https://previews.example.com`; those below `localhost` always work. */
  readonly previews?: string;
  /** Opens a port by the token of a share. */
  readonly openShare: OpenShare;
  /** Opens a port of a sandbox whose ports are public. Left out: there is none. */
  readonly openPublic?: OpenPublic;
  /** Further faces on the same port. */
  readonly faces?: readonly MakeFace[];
  /** Left out: nobody asked for traces. */
  readonly tracer?: Tracer;
  /** Told of every answer that the contract does not allow. Given, each answer is checked; meant for tests. */
  readonly onBreach?: (breach: string) => void;
  /** In place of the values in `limits.ts`; meant for tests. */
  readonly times?: Partial<Times>;
}

interface Times {
  readonly headersMs: number;
  readonly heartbeatMs: number;
  readonly interimMs: number;
  readonly uploadIdleMs: number;
  readonly closeGraceMs: number;
}

export function createHttpServer(options: HttpServerOptions): FastifyInstance {
  const times: Times = {
    headersMs: limits.HEADERS_TIMEOUT_MS,
    heartbeatMs: limits.HEARTBEAT_MS,
    interimMs: limits.INTERIM_MS,
    uploadIdleMs: limits.UPLOAD_IDLE_MS,
    closeGraceMs: limits.CLOSE_GRACE_MS,
    ...options.times,
  };
  const inFlight = new InFlight();
  const isOurHost = createHostCheck([...(options.hosts ?? []), ...hostsOf(options)]);
  const attempts = new FailedAttempts();
  const names = new PreviewNames(namesOf(options, () => portOf(app)));
  const { useCases, authenticate, openShare, openPublic = async () => null } = options;
  const logger = options.logger as FastifyBaseLogger;
  const own = { useCases, authenticate, openShare, openPublic, logger };
  const ports = new PortsFace({ ...own, names, isOurHost, attempts, inFlight, newRequestId });
  const lent = lend(options.logger, names, { inFlight, isOurHost });
  const faces = (options.faces ?? []).map((make) => make(lent));
  const faceOf = (request: IncomingMessage) => faces.find((face) => face.takes(request));
  const app: FastifyInstance = Fastify({
    loggerInstance: logger,
    // Paths and queries are tenants' content, so requests are logged below, by their route.
    logController: new LogController({ disableRequestLogging: true }),
    exposeHeadRoutes: false,
    return503OnClosing: false,
    requestIdHeader: false,
    genReqId: newRequestId,
    serverFactory: (listener) =>
      createNodeServer(
        listener,
        { tls: options.tls, headersMs: times.headersMs },
        {
          shouldUpgrade: (request) =>
            faceOf(request) === undefined
              ? ports.takesUpgrade(request)
              : request.headers.upgrade?.toLowerCase() === 'websocket',
          upgrade: (request, socket, head) => {
            const face = faceOf(request);
            if (face === undefined) void ports.handleUpgrade(request, socket, head);
            else face.handleUpgrade(request, socket, head);
          },
          isForeign: (request) => faceOf(request) !== undefined || ports.takes(request),
          foreign: (request, response) => {
            const face = faceOf(request);
            if (face === undefined) void ports.handle(request, response);
            else face.handle(request, response);
          },
        },
      ),
    clientErrorHandler: answerClientError,
    frameworkErrors: (error, request, reply) => {
      answerError(app, options, error, request, reply as FastifyReply);
    },
  });
  // Bodies stay unread: each route reads its own.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _body, done) => done(null));
  app.decorateRequest('identity', null);
  app.decorateRequest('gone', null);
  guardRequests(app, options, { inFlight, isOurHost, attempts });
  app.setErrorHandler((error, request, reply) => answerError(app, options, error, request, reply));
  app.setNotFoundHandler((request) => {
    throw noSuchRoute(request.raw.url ?? '');
  });
  for (const name of ROUTE_NAMES) bindRoute(app, options, { times, names }, name);
  for (const face of faces) addRoutes(app, face);
  closeInBoundedTime(app, inFlight, times.closeGraceMs);
  return app;
}

function hostsOf({ domain }: HttpServerOptions): readonly string[] {
  return domain === undefined ? [] : [domain.name, `api.${domain.name}`];
}

const HTTPS_PORT = 443;

function namesOf({ domain, previews }: HttpServerOptions, ownPort: () => number): NamesBase | undefined {
  if (domain === undefined) return previews === undefined ? undefined : namesBaseOf(previews);
  const port = () => domain.port ?? ownPort();
  return { protocol: 'https:', hostname: domain.name, port: () => (port() === HTTPS_PORT ? '' : `:${port()}`) };
}

function portOf({ server }: FastifyInstance): number {
  const address = server.address();
  return address === null || typeof address === 'string' ? HTTPS_PORT : address.port;
}

function addRoutes(app: FastifyInstance, face: Face): void {
  void app.register(async (scope) => face.addRoutes(scope));
}

function lend(
  logger: Logger,
  names: PreviewNames,
  { inFlight, isOurHost }: Pick<Guard, 'inFlight' | 'isOurHost'>,
): Lent {
  return {
    logger,
    names,
    checkHost: ({ headers: { host } }) => {
      if (!isOurHost(host)) throw new ProtocolError('host_refused', refusalOf(host));
    },
    newRequestId,
    track: (request, response) => inFlight.track(request, response),
    trackSocket: (socket) => inFlight.trackSocket(socket),
    callerOf,
    explain: (thrown, requestId) => explain(thrown, requestId, logger as FastifyBaseLogger),
  };
}

/** Names a request in answers and logs. Always ours: a client cannot choose what our log says. */
function newRequestId(): string {
  return `req_${randomBytes(10).toString('hex')}`;
}

interface Guard {
  readonly inFlight: InFlight;
  readonly isOurHost: (host: string | undefined) => boolean;
  readonly attempts: FailedAttempts;
}

function guardRequests(app: FastifyInstance, options: HttpServerOptions, guard: Guard): void {
  const { inFlight, isOurHost, attempts } = guard;
  app.addHook('onRequest', async (request, reply) => {
    request.gone = inFlight.track(request.raw, reply.raw);
    logEnd(app, request, reply);
    reply.raw.setHeader('x-request-id', request.id);
    reply.raw.setHeader(VERSION_HEADER_NAME, options.version);
    reply.raw.setHeader('cache-control', 'no-store');
    reply.raw.setHeader('x-content-type-options', 'nosniff');
    const { host } = request.headers;
    if (!isOurHost(host)) throw new ProtocolError('host_refused', refusalOf(host));
    const { routeName, open, credentials = bearerCredentials } = request.routeOptions.config;
    const route: Route | undefined = routeName === undefined ? undefined : ROUTES[routeName];
    if (route?.open || open) return;
    request.identity = await identify(credentials(request.headers), request.ip, options.authenticate, attempts);
  });
}

function logEnd(app: FastifyInstance, request: FastifyRequest, reply: FastifyReply): void {
  reply.raw.once('close', () => {
    const { statusCode: status, writableFinished: complete } = reply.raw;
    app.log.info(
      {
        requestId: request.id,
        route: request.routeOptions.config?.routeName ?? request.routeOptions.config?.logName ?? null,
        status,
        complete,
        durationMs: Math.round(reply.elapsedTime),
        apiKeyId: request.identity?.principal.apiKeyId ?? null,
      },
      'request',
    );
  });
}

function bindRoute<N extends RouteName>(
  app: FastifyInstance,
  options: HttpServerOptions,
  { times, names }: { readonly times: Times; readonly names: PreviewNames },
  name: N,
): void {
  const route: Route = ROUTES[name];
  const server: CallServer = {
    version: options.version,
    previewTemplate: (request) =>
      names.template({
        host: request.headers.host,
        encrypted: isEncrypted(request),
        loopback: isLoopback(hostNameIn(request.headers.host ?? '') ?? ''),
      }),
    heartbeatMs: times.heartbeatMs,
    uploadIdleMs: times.uploadIdleMs,
    explain: (thrown, requestId) => explain(thrown, requestId, app.log),
    onBreach: options.onBreach,
  };
  app.route({
    method: route.method,
    url: route.path.replaceAll(/\{(\w+)\}/g, ':$1'),
    config: { routeName: name },
    handler: (request, reply) =>
      (options.tracer ?? NO_TRACES).span(spanOf(name, request), async (note) => {
        try {
          const answered = await handle(request, reply);
          note(statusNote(reply.raw.headersSent ? reply.raw.statusCode : reply.statusCode));
          return answered;
        } catch (thrown) {
          note(statusNote(toProblem(thrown, request.id).status));
          throw thrown;
        }
      }),
  });

  async function handle(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    checkBodyIsWanted(route, request.raw);
    const input = (await readInput(route, request.raw, request.params)) as Call<N>['input'];
    const caller = callerOf(request);
    const { useCases } = options;
    const call: Call<N> = { useCases, caller, input, request: request.raw, response: reply.raw, server };
    const stopInterim = startInterim(call, times.interimMs);
    try {
      return await answer(name, call, reply);
    } finally {
      stopInterim();
    }
  }
}

function statusNote(status: number): SpanAttributes {
  return { 'http.response.status_code': status };
}

function spanOf(name: RouteName, { headers, id }: FastifyRequest): SpanStart {
  const { method, path } = ROUTES[name];
  const { traceparent } = headers;
  return {
    name,
    attributes: { 'http.request.method': method, 'http.route': path, 'space.request': id },
    traceparent: typeof traceparent === 'string' ? traceparent : undefined,
  };
}

async function answer<N extends RouteName>(name: N, call: Call<N>, reply: FastifyReply): Promise<FastifyReply> {
  const { caller, server } = call;
  try {
    const route: Route = ROUTES[name];
    const answered = await (prefersAsync(route, call) ? answerAsync(call, ANSWERS[name]) : ANSWERS[name](call));
    if (answered === 'streamed') return reply.hijack();
    checkAnswer(name, answered, server);
    return reply.code(answered.status ?? ROUTES[name].status).send(answered.body);
  } catch (error) {
    if (!reply.raw.headersSent) throw error;
    // What remains to be said can only be said by breaking off.
    if (!(error instanceof ClientGone)) server.explain(error, caller.requestId);
    reply.raw.destroy();
    return reply.hijack();
  }
}

function callerOf({ identity, id, gone, raw }: FastifyRequest): Caller {
  const key = idempotencyKeyIn(raw);
  return {
    ...(identity ?? NOBODY),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    requestId: id,
    signal: gone ?? AbortSignal.abort(),
  };
}

/** The caller of open routes, whose answers depend on nobody: it may do nothing. */
const NOBODY: Identity = {
  principal: {
    apiKeyId: 'key_0000000000000000' as ApiKeyId,
    organisationId: DEFAULT_ORGANISATION,
    operator: false,
    onlyProject: null,
    roles: [],
  },
  projectId: DEFAULT_PROJECT,
};

/** Sends `102 Processing` now and then to a client that asked for it, until the answer begins. */
function startInterim({ request, response }: Call<RouteName>, interimMs: number): () => void {
  if (request.headers['x-space-interim'] !== '102') return () => undefined;
  const timer = setInterval(() => {
    if (!response.headersSent && !response.destroyed) response.writeProcessing();
  }, interimMs);
  return () => clearInterval(timer);
}

function checkAnswer(name: RouteName, { body, status }: Exclude<Answer, 'streamed'>, { onBreach }: CallServer): void {
  const route: Route = ROUTES[name];
  if (onBreach === undefined || route.response.kind !== 'json') return;
  const schema = status === 202 ? schemas.operation : route.response.schema;
  const result = schema.safeParse(body);
  if (!result.success) onBreach(`${name}: ${result.error.message}`);
}

function answerError(
  app: FastifyInstance,
  options: HttpServerOptions,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  // With the client gone, the failure of its call is no news; the answer goes nowhere.
  const thrown = request.gone?.aborted ? request.gone.reason : translate(error);
  if (thrown instanceof ClientGone) return reply.hijack();
  const problem = explain(thrown, request.id, app.log);
  const { routeName } = request.routeOptions?.config ?? {};
  if (options.onBreach !== undefined && routeName !== undefined) {
    const declared = problemCodesOf(ROUTES[routeName]);
    if (!declared.includes(problem.code)) options.onBreach(`${routeName}: ${problem.code} is not declared`);
  }
  return sendProblem(reply, problem, thrown);
}

/** Closing waits for calls in flight, then ends their streams with a problem, then cuts what is left. */
function closeInBoundedTime(app: FastifyInstance, inFlight: InFlight, graceMs: number): void {
  app.addHook('preClose', async () => {
    if (!app.server.listening) return;
    // A connection whose last call has ended would else be kept for the next one.
    const idle = setInterval(() => app.server.closeIdleConnections(), limits.CLOSE_CHECK_MS);
    const end = setTimeout(() => inFlight.abortAll(), graceMs);
    const cut = setTimeout(() => app.server.closeAllConnections(), graceMs + limits.CLOSE_LAST_WORDS_MS);
    app.server.once('close', () => {
      clearInterval(idle);
      clearTimeout(end);
      clearTimeout(cut);
    });
  });
}

/** Loads what the framework would load at its first use: later it may not be readable for this process any more. */
export async function loadFramework(): Promise<void> {
  const app = Fastify({ loggerInstance: createLogger({ level: 'silent' }) as FastifyBaseLogger });
  await app.ready();
  await app.close();
}
