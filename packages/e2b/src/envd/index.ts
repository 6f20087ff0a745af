/** What E2B's SDKs find in a sandbox: its processes and files, by the Connect protocol and plain HTTP. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Caller, UseCases } from '@space/contract';
import type { SandboxId } from '@space/core';
import type { Logger } from 'pino';

export interface EnvdDeps {
  readonly useCases: UseCases;
  readonly logger: Logger;
}

/** Whom a request is for, as the front door has found it. The request has shown that it may reach into that sandbox. */
export interface EnvdTarget {
  /** The authority that the request has; its signal aborts when the client has gone, or the server closes. */
  readonly caller: Caller;
  readonly sandboxId: SandboxId;
  /** As the SDKs write it. */
  readonly e2bSandboxId: string;
  readonly template: string;
  /** Who programs run as where a request names nobody. */
  readonly defaultUser: string;
  /** The environment that the sandbox was made with. */
  readonly env: Readonly<Record<string, string>>;
}

export interface Envd {
  /** Answers the request in whatever way, and never throws. */
  handle(request: IncomingMessage, response: ServerResponse, target: EnvdTarget): void;
}

export function createEnvd({ logger }: EnvdDeps): Envd {
  return {
    handle(_request, response, { caller: { requestId } }) {
      logger.debug({ requestId }, 'nothing in the sandbox answers that');
      response.writeHead(404, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ code: 404, message: 'not found' }));
    },
  };
}
