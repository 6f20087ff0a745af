/**
 * The face as the server takes it up: routes of the control API, and the door that requests into sandboxes come through. Both are on
 * the port of our own API: no path of theirs is one of ours, and what goes into a sandbox says so by a header.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { type Caller, IDEMPOTENCY_HEADER_NAME } from '@space/contract';
import {
  type Credentials,
  isEncrypted,
  type Lent,
  type MakeFace,
  parseQuery,
  projectIn,
  readBody,
  readJson,
  translate,
  UPLOAD_IDLE_MS,
} from '@space/http/parts';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Platform } from './control/call.ts';
import { notHere, ROUTES_OF_E2B } from './control/routes.ts';
import { UPLOADS } from './control/template-builds.ts';
import { FOR_ALL_ORIGINS, preflightHeaders } from './cors.ts';
import { Door, type DoorPlatform } from './door/door.ts';
import { E2bError, errorBodyOf, refused } from './errors.ts';

export type E2bPlatform = Omit<Platform, 'left' | 'domain'> & DoorPlatform;

const KEY_HEADER = 'x-api-key';
const KEY = /^[\x21-\x7e]{1,512}$/;
/** Of paths that are theirs, whether or not anything answers there. */
const THEIR_PATHS = ['/sandboxes', '/v2', '/v3', '/templates', '/snapshots', '/teams', '/secrets', '/volumes'];
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

export function e2bFace(platform: E2bPlatform): MakeFace {
  return (lent) => {
    const door = new Door(platform, lent);
    const calls: Platform = {
      ...platform,
      // Its port is known when the server listens.
      get domain() {
        return lent.names.encryptedBase;
      },
      left: (id) => door.left(id),
    };
    return {
      addRoutes: (app) => {
        app.addHook('onClose', async () => door.close());
        addRoutes(app, calls, lent);
      },
      takes: (request) => door.takes(request),
      handle: (request, response) => door.handle(request, response),
      handleUpgrade: (request, socket, head) => door.handleUpgrade(request, socket, head),
    };
  };
}

function credentials(headers: IncomingHttpHeaders): Credentials {
  const given = headers[KEY_HEADER];
  return {
    token: typeof given === 'string' && KEY.test(given) ? given : undefined,
    lacking: 'The request has no valid X-API-KEY header.',
    project: projectIn(headers),
  };
}

function addRoutes(app: FastifyInstance, platform: Platform, lent: Lent): void {
  app.setErrorHandler((error, request, reply) => answerError(lent, error, request, reply));
  app.addHook('onSend', async (_request, reply) => void reply.headers(FOR_ALL_ORIGINS));
  for (const { method, path, answer } of ROUTES_OF_E2B) {
    app.route({
      method,
      url: path,
      config: { credentials, logName: `e2b ${method} ${path}` },
      handler: async (request, reply) => {
        const url = request.raw.url ?? '';
        const start = url.indexOf('?');
        const { status, body, headers } = await answer({
          platform,
          caller: callerOf(lent, request),
          origin: originOf(lent, request),
          params: request.params as Readonly<Record<string, string>>,
          query: parseQuery(start < 0 ? '' : url.slice(start + 1)),
          body: await readJson(request.raw),
        });
        return reply
          .code(status)
          .headers(headers ?? {})
          .send(body);
      },
    });
  }
  addUploads(app, platform, lent);
  for (const prefix of THEIR_PATHS) {
    for (const url of [prefix, `${prefix}/*`]) {
      app.route({
        method: 'OPTIONS',
        url,
        config: { open: true, logName: 'e2b preflight' },
        handler: (request, reply) => reply.code(204).headers(preflightHeaders(request.headers)).send(),
      });
      app.route({
        method: METHODS.filter((method) => !ROUTES_OF_E2B.some((one) => one.method === method && one.path === url)),
        url,
        config: { credentials, logName: 'e2b, not here' },
        handler: async ({ method, raw }) => {
          throw notHere(method, (raw.url ?? '').split('?', 1)[0] ?? '');
        },
      });
    }
  }
}

/** What was asked for by a link that is good for it alone: the SDKs send no key along. */
function addUploads(app: FastifyInstance, { useCases, uploads }: Platform, lent: Lent): void {
  app.route({
    method: 'PUT',
    url: `${UPLOADS}*`,
    config: { open: true, logName: 'e2b PUT upload' },
    handler: async (request, reply) => {
      const { '*': ticket = '' } = request.params as { readonly '*'?: string };
      const redeemed = await uploads.redeem(ticket);
      if (redeemed === null) throw new E2bError(403, 'The link is not good, or no longer.');
      const caller = { ...lent.callerOf(request), ...redeemed.identity };
      const body = readBody(request.raw, { idleMs: UPLOAD_IDLE_MS });
      await useCases.putTemplateFile(caller, { hash: redeemed.hash }, body);
      return reply.code(200).send();
    },
  });
}

/** The scheme may be that of a proxy before this server; whoever says another one than it is harms itself alone. */
function originOf({ names }: Lent, { raw }: FastifyRequest): string {
  const { host = 'localhost' } = raw.headers;
  const secure = isEncrypted(raw) || names.isEncrypted(host) || raw.headers['x-forwarded-proto'] === 'https';
  return `${secure ? 'https' : 'http'}://${host}`;
}

/** Their calls are several of ours, and say when by how long from now: none of them can be made once for a key. */
function callerOf(lent: Lent, request: FastifyRequest): Caller {
  const { idempotencyKey, ...caller } = lent.callerOf(request);
  if (idempotencyKey === undefined) return caller;
  throw refused(IDEMPOTENCY_HEADER_NAME, 'The API below /v1 takes it.');
}

function answerError(lent: Lent, error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (request.gone?.aborted) return reply.hijack();
  const body = errorBodyOf(translate(error), (thrown) => lent.explain(thrown, request.id));
  return reply
    .code(body.code)
    .header('content-type', 'application/json')
    .send(Buffer.from(JSON.stringify(body)));
}
