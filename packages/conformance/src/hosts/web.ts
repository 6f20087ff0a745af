/** What our hosts of HTTP answer, each by its path. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { type Duplex, Readable } from 'node:stream';
import { gitBackend } from './git.ts';

/** 64 MiB. */
const FLOOD_PIECES = 1_024;
const PIECE = Buffer.alloc(64 * 1024, 'x');
const GIT_PATH = '/open/git';
/** A frame of a WebSocket that says "well". */
const WELL_FRAME = Buffer.from('\x81\x04well', 'latin1');

/** `/flood` is long; `/events` begins and does not end; `/echo` gives back what came; `/git` has repositories; all else is well. */
export function answerHttp(repositories: string): RequestListener {
  const git = gitBackend(repositories, GIT_PATH);
  return (incoming, answer) => {
    if (incoming.url?.startsWith(`${GIT_PATH}/`)) git(incoming, answer);
    else answerPlainly(incoming, answer);
  };
}

function answerPlainly(incoming: IncomingMessage, answer: ServerResponse): void {
  incoming.on('error', () => undefined);
  answer.on('error', () => undefined);
  const path = incoming.url?.split('?')[0] ?? '';
  if (path.startsWith('/open/events')) {
    answer.writeHead(200, { 'content-type': 'text/event-stream' });
    answer.write('data: first\n\n');
    return;
  }
  if (path.startsWith('/open/flood')) {
    const long = Readable.from(Array.from({ length: FLOOD_PIECES }, () => PIECE));
    long.pipe(answer).on('close', () => long.destroy());
    return;
  }
  if (path.startsWith('/open/echo')) {
    incoming.pipe(answer);
    return;
  }
  incoming.resume();
  answer.end('well\n');
}

/** Takes what wants to be a WebSocket, and says something when it is told something. */
export function answerUpgrade(incoming: IncomingMessage, socket: Duplex): void {
  socket.on('error', () => undefined);
  if (!incoming.url?.startsWith('/open/socket')) {
    socket.end('HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
    return;
  }
  socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  socket.on('data', () => socket.write(WELL_FRAME));
  socket.on('end', () => socket.end());
}

/** `/grpc` ends with trailers. */
export function answerStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
  stream.on('error', () => undefined);
  stream.resume();
  if (!headers[':path']?.startsWith('/open/grpc')) {
    stream.respond({ ':status': 200 });
    stream.end('well\n');
    return;
  }
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
  stream.end('\0\0\0\0\x04well');
}
