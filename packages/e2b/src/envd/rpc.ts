/**
 * The services behind Connect's protocol, on Node's own requests and responses. The library does the protocol; what is
 * here is the limits, the errors, and that a stream whose machine is gone is broken off and not ended.
 */
import { createConnectRouter, createContextValues, type Interceptor } from '@connectrpc/connect';
import type { UniversalHandler } from '@connectrpc/connect/protocol';
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from '@connectrpc/connect-node';
import { MAX_EXEC_TIMEOUT_MS } from '@space/contract';
import type { Logger } from 'pino';
import { Filesystem } from '../../gen/filesystem_pb.ts';
import { Process } from '../../gen/process_pb.ts';
import { CALL, type EnvdCall } from './call.ts';
import { endsLife, HttpError, toConnectError } from './errors.ts';
import { filesystemService } from './filesystem-service.ts';
import type { EnvdRequest, EnvdResponse } from './http.ts';
import { processService } from './process-service.ts';
import { Turns } from './turns.ts';
import type { Users } from './users.ts';
import type { Watchers } from './watchers.ts';

/** Of one message: input for a process comes in one, in base64. */
const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;

interface RpcDeps {
  readonly users: Users;
  readonly watchers: Watchers;
  readonly logger: Logger;
}

export class Rpc {
  readonly #handlers: ReadonlyMap<string, UniversalHandler>;
  readonly #logger: Logger;

  constructor({ users, watchers, logger }: RpcDeps) {
    this.#logger = logger;
    const router = createConnectRouter({
      grpc: false,
      grpcWeb: false,
      readMaxBytes: MAX_MESSAGE_BYTES,
      maxTimeoutMs: MAX_EXEC_TIMEOUT_MS,
      acceptCompression: [],
      interceptors: [tellErrors],
    });
    router.service(Process, processService({ users, turns: new Turns() }));
    router.service(Filesystem, filesystemService({ users, watchers }));
    this.#handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  }

  knows(path: string): boolean {
    return this.#handlers.has(path);
  }

  async serve(path: string, request: EnvdRequest, response: EnvdResponse, call: EnvdCall): Promise<void> {
    const handler = this.#handlers.get(path);
    if (handler === undefined) throw new HttpError(404, 'not found');
    const asked = universalRequestOf(request, response, call);
    try {
      await universalResponseToNodeResponse(await handler(asked), response);
    } catch (thrown) {
      // The client has gone, or we broke the connection off; otherwise nothing was sent.
      if (call.caller.signal.aborted || response.headersSent) return;
      this.#logger.warn({ err: thrown, requestId: call.caller.requestId }, 'a call into a sandbox was not answered');
      throw thrown;
    }
  }
}

function universalRequestOf(request: EnvdRequest, response: EnvdResponse, call: EnvdCall) {
  try {
    const values = createContextValues().set(CALL, call);
    return universalRequestFromNodeRequest(request, response, undefined, values);
  } catch {
    // A Host that is none, which nothing before looked at.
    throw new HttpError(400, 'the request names no host');
  }
}

const tellErrors: Interceptor = (next) => async (request) => {
  try {
    const response = await next(request);
    if (!response.stream) return response;
    return { ...response, message: untilBroken(response.message, request.contextValues.get(CALL)) };
  } catch (thrown) {
    throw toConnectError(thrown);
  }
};

async function* untilBroken<T>(items: AsyncIterable<T>, call: EnvdCall | undefined): AsyncGenerator<T> {
  let begun = false;
  try {
    for await (const item of items) {
      begun = true;
      yield item;
    }
  } catch (thrown) {
    if (begun && endsLife(thrown)) call?.reset();
    throw toConnectError(thrown);
  }
}
