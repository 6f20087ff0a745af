/**
 * What E2B's SDKs find in a sandbox: its processes and files, by the Connect protocol and plain HTTP. It is served here, on
 * the host, and asks the sandbox by the same use-cases as every other face; nothing of it runs in the sandbox.
 *
 * Of its own it keeps only what a request, or a watch that is asked about, needs while it lasts. Output and files pass through
 * in pieces, at the pace of whoever reads.
 */
import type { UseCases } from '@space/contract';
import type { SandboxId } from '@space/core';
import type { Logger } from 'pino';
import { targetOf } from '../target.ts';
import { type EnvdCall, type EnvdTarget, namedUser } from './call.ts';
import { sendFile } from './download.ts';
import { environmentOf } from './environment.ts';
import { HttpError } from './errors.ts';
import { type EnvdRequest, type EnvdResponse, resetConnection, sendError, sendJson } from './http.ts';
import { LiveRequests } from './live-requests.ts';
import { metricsOf } from './metrics.ts';
import { Rpc } from './rpc.ts';
import { receiveFiles } from './upload.ts';
import { Users } from './users.ts';
import { Watchers } from './watchers.ts';

export type { EnvdTarget } from './call.ts';

/** Longer than any interval between signs of life. */
const STALLED_MS = 10 * 60_000;

export interface EnvdDeps {
  readonly useCases: UseCases;
  readonly logger: Logger;
}

export interface Envd {
  /** Answers the request in whatever way, and never throws. */
  handle(request: EnvdRequest, response: EnvdResponse, target: EnvdTarget): void;
  /** The sandbox does not run any more, and who asks is told so: breaks off what is under way in it. */
  disconnect(sandboxId: SandboxId): void;
  /** Breaks off everything. */
  close(): void;
}

export function createEnvd({ useCases, logger }: EnvdDeps): Envd {
  const users = new Users();
  const watchers = new Watchers();
  const live = new LiveRequests();
  const rpc = new Rpc({ users, watchers, logger });

  return {
    handle(request, response, target) {
      const signal = live.add(target.sandboxId, response);
      // Signs of life count; so this ends what a client does not read, or a sandbox does not take.
      response.setTimeout(STALLED_MS, () => resetConnection(response));
      const url = targetOf(request);
      const call: EnvdCall = {
        useCases,
        target,
        sandboxId: target.sandboxId,
        caller: { ...target.caller, signal: AbortSignal.any([target.caller.signal, signal]) },
        user: url.searchParams.get('username') || namedUser(request.headers.authorization) || target.defaultUser,
        reset: () => resetConnection(response),
      };
      response.setHeader('access-control-allow-origin', '*');
      response.setHeader('cache-control', 'no-store');
      answer({ request, response, url, call }).catch((thrown: unknown) => {
        if (response.destroyed || response.writableEnded) return;
        if (!call.caller.signal.aborted) logFailure(logger, thrown, call);
        sendError(request, response, thrown);
      });
    },
    disconnect(sandboxId) {
      watchers.endAllOf(sandboxId);
      users.forget(sandboxId);
      live.breakOff(sandboxId);
    },
    close() {
      watchers.close();
      live.breakOffAll();
    },
  };

  async function answer({ request, response, url, call }: Asked): Promise<void> {
    const { pathname, searchParams: query } = url;
    // Whoever waits to be told that its body is wanted: it has shown by now what it takes.
    if (/^100-continue$/i.test(request.headers.expect ?? '')) response.writeContinue();
    if (rpc.knows(pathname)) return rpc.serve(pathname, request, response, call);
    switch (`${request.method} ${pathname}`) {
      case 'GET /metrics':
        return sendJson(response, 200, await metricsOf(call));
      case 'GET /envs':
        return sendJson(response, 200, environmentOf(call.target).all);
      case 'GET /files':
      case 'HEAD /files':
        return sendFile(call, { request, response, query }, users);
      case 'POST /files':
        return sendJson(response, 200, await receiveFiles(call, request, { query, users }));
      default:
        throw new HttpError(404, 'not found');
    }
  }
}

interface Asked {
  readonly request: EnvdRequest;
  readonly response: EnvdResponse;
  readonly url: URL;
  readonly call: EnvdCall;
}

/** What is told to the client is told to it; what is not is for the log. */
function logFailure(logger: Logger, thrown: unknown, { caller: { requestId } }: EnvdCall): void {
  if (thrown instanceof HttpError && thrown.status < 500) return;
  logger.debug({ err: thrown, requestId }, 'a call into a sandbox failed');
}
