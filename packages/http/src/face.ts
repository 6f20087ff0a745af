/**
 * A further face: other clients' calls, over the same use-cases, on the same port. Its routes pass what ours do (host check, key,
 * limits, log); what it takes before any route is looked up, it checks by itself, with what it is lent.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Caller, Problem } from '@space/contract';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Credentials } from './auth.ts';
import type { PreviewNames } from './ports/preview-names.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Of a route of another face: where its requests have the key. */
    credentials?: (headers: IncomingHttpHeaders) => Credentials;
    /** Of such a route: it asks for no key. */
    open?: boolean;
    /** Of such a route, what the log calls it. */
    logName?: string;
  }
}

/** What the server lends to a face. */
export interface Lent {
  readonly logger: Logger;
  /** Throws when the request names a host that is not ours. */
  checkHost(request: IncomingMessage): void;
  /** Names of hosts that lead into sandboxes. */
  readonly names: Pick<PreviewNames, 'labelIn' | 'encryptedBase' | 'isEncrypted'>;
  newRequestId(): string;
  /** Aborts when the client of a request has gone, or the server closes and cannot wait any longer. */
  track(request: IncomingMessage, response: ServerResponse): AbortSignal;
  trackSocket(socket: Duplex): AbortSignal;
  /** Of a route's request, which has an identity. */
  callerOf(request: FastifyRequest): Caller;
  /** Any thrown value as a problem; its cause goes to the log. */
  explain(thrown: unknown, requestId: string): Problem;
}

export interface Face {
  /** Called once, with a scope of its own. */
  addRoutes(app: FastifyInstance): void;
  takes(request: IncomingMessage): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** Of what it takes: a request that would go on as a WebSocket. */
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
}

export type MakeFace = (lent: Lent) => Face;
