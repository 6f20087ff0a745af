/**
 * Streams of events: one JSON object per line. The status and the headers wait for the first event, so that a call that
 * fails at once is answered with a problem; what fails later becomes the last event. An empty line now and then keeps
 * quiet streams from being taken for dead.
 */
import { type ResponseBody, ROUTES } from '@space/contract';
import { AppError } from '@space/core';
import type { Call } from './call.ts';
import { ClientGone, itemsOf, open, write } from './outgoing.ts';

type StreamRoute =
  | 'exec'
  | 'attachProcess'
  | 'listFiles'
  | 'watchFiles'
  | 'listEvents'
  | 'exportAudit'
  | 'followExport';

/** Sends the events. `last` are the types that may end the stream; one that ends without is reported as broken. */
export async function sendEvents<N extends StreamRoute>(
  route: N,
  call: Call<N>,
  events: AsyncIterable<{ readonly type: string }>,
): Promise<void> {
  const { response, server } = call;
  const opened = await open(events);
  response.writeHead(ROUTES[route].status, { 'content-type': 'application/x-ndjson' });
  response.flushHeaders();
  const heartbeat = setInterval(() => {
    if (!response.destroyed && !response.writableNeedDrain && !response.writableEnded) response.write('\n');
  }, server.heartbeatMs);
  try {
    for await (const event of whole(route, call, itemsOf(opened))) {
      checkEvent(route, call, event);
      heartbeat.refresh();
      await write(response, `${JSON.stringify(event)}\n`);
    }
    response.end();
  } finally {
    clearInterval(heartbeat);
  }
}

/** The events, with a last one whatever happens. */
async function* whole<N extends StreamRoute>(
  route: N,
  { caller, response, server }: Call<N>,
  events: AsyncIterable<{ readonly type: string }>,
): AsyncGenerator<object> {
  const last: readonly string[] = ROUTES[route].response.last;
  let thrown: unknown = new AppError('link_lost', 'The stream ended before its last event.');
  try {
    for await (const event of events) {
      yield event;
      if (last.includes(event.type)) return;
    }
    if (caller.signal.aborted) thrown = caller.signal.reason;
  } catch (error) {
    if (error instanceof ClientGone) throw error;
    thrown = caller.signal.aborted ? caller.signal.reason : error;
  }
  if (response.destroyed) throw new ClientGone();
  yield { type: 'error', problem: server.explain(thrown, caller.requestId) };
}

function checkEvent<N extends StreamRoute>(route: N, { server }: Call<N>, event: object): void {
  if (server.onBreach === undefined) return;
  const response: ResponseBody = ROUTES[route].response;
  if (response.kind !== 'ndjson') return;
  const result = response.event.safeParse(event);
  if (!result.success) server.onBreach(`${route}: ${result.error.message}`);
}
