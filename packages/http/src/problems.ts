/** Errors as answers. What is `internal` shows nothing of itself; its cause goes to the log, under the request id. */
import type { Socket } from 'node:net';
import { type Problem, ProtocolError, RETRY_AFTER_SECONDS, toProblem } from '@space/contract';
import { AppError } from '@space/core';
import type { FastifyBaseLogger, FastifyReply } from 'fastify';

export function explain(thrown: unknown, requestId: string, logger: FastifyBaseLogger): Problem {
  const problem = toProblem(thrown, requestId);
  if (problem.status >= 500) {
    const level = problem.code === 'internal' ? 'error' : 'warn';
    logger[level]({ requestId, code: problem.code, err: thrown }, problem.title);
  }
  return problem;
}

/** What goes with a problem, whatever form it has. */
export function problemHeaders({ retry, code }: Problem, thrown: unknown): Readonly<Record<string, string>> {
  return {
    ...(retry === 'later' ? { 'retry-after': String(RETRY_AFTER_SECONDS) } : {}),
    ...(code === 'unauthenticated' ? { 'www-authenticate': 'Bearer' } : {}),
    ...(thrown instanceof ProtocolError ? thrown.headers : {}),
  };
}

export function sendProblem(reply: FastifyReply, problem: Problem, thrown: unknown): FastifyReply {
  return reply
    .code(problem.status)
    .headers({ 'content-type': 'application/problem+json', ...problemHeaders(problem, thrown) })
    .send(Buffer.from(JSON.stringify(problem)));
}

/** The framework's own complaints about a request, in our words; anything else as it is. */
export function translate(thrown: unknown): unknown {
  if (!(thrown instanceof Error) || !('code' in thrown) || !String(thrown.code).startsWith('FST_')) return thrown;
  if (thrown.code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return new ProtocolError('unsupported_media_type');
  const status = 'statusCode' in thrown ? Number(thrown.statusCode) : 500;
  return status < 500 ? new AppError('bad_request', 'The request is malformed.', { cause: thrown }) : thrown;
}

/** Bytes that are no HTTP request, or whose head came too slowly. There is no request to answer, only a socket. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const thrown =
    error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
      ? new ProtocolError('request_too_slow')
      : new AppError('bad_request', 'The request is not valid HTTP, or its head is too large.');
  const problem = toProblem(thrown, 'none');
  const body = JSON.stringify(problem);
  socket.end(
    `HTTP/1.1 ${problem.status} Error\r\nConnection: close\r\nContent-Type: application/problem+json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}
