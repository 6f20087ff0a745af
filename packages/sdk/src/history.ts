/** What was done, and what happens: operations and events. */
import type { Operation, OperationList, PlatformWireEvent } from '@space/contract';
import { invalidAnswer } from './errors.ts';
import { readEvents } from './lines.ts';
import { refuseUnknown } from './options.ts';
import { pagesOf } from './pages.ts';
import { type CallOptions, type ConnectionOptions, Transport, withoutConnection } from './transport.ts';

export type { Operation };
/** Something that happened; `cursor` is where it stands. */
export type HappenedEvent = Extract<PlatformWireEvent, { readonly type: 'event' }>;

export interface ListOperationsOptions extends ConnectionOptions, CallOptions {
  /** Only those on the sandbox of this id, which may be deleted by now. */
  readonly sandboxId?: string;
}

export interface EventsOptions extends ConnectionOptions, CallOptions {
  /** The cursor of an event: go on behind it. `latest`: what happens from now on. Default: all that are kept, 7 days. */
  readonly after?: string;
  /** Whether to wait for what happens next. Default true. */
  readonly follow?: boolean;
}

/** Operations of the project, newest first, fetched as they are asked for. */
export async function* operations(options: ListOperationsOptions = {}): AsyncGenerator<Operation> {
  const { sandboxId, signal, ...unknown } = withoutConnection(options);
  refuseUnknown(unknown);
  const query = { sandbox: sandboxId };
  const pages = pagesOf<OperationList>(new Transport(options), '/v1/operations', query, signal);
  for await (const page of pages) yield* page.operations;
}

/** What happens in the project, in order; none is missed. Errors: `events_lost` for a cursor that is too old. */
export async function* events(options: EventsOptions = {}): AsyncGenerator<HappenedEvent> {
  const { after, follow, signal, ...unknown } = withoutConnection(options);
  refuseUnknown(unknown);
  const call = { method: 'GET', path: '/v1/events', query: { after, follow }, signal } as const;
  const response = await new Transport(options).send(call);
  for await (const event of readEvents<PlatformWireEvent>(response, 'end', signal)) {
    if (event.type === 'event') yield event;
  }
}

/** A cursor of now, for `after`: what happens once this has returned comes behind it. */
export async function latestEvent(options: ConnectionOptions & CallOptions = {}): Promise<string> {
  const { signal, ...unknown } = withoutConnection(options);
  refuseUnknown(unknown);
  const call = { method: 'GET', path: '/v1/events', query: { after: 'latest', follow: false }, signal } as const;
  const response = await new Transport(options).send(call);
  for await (const event of readEvents<PlatformWireEvent>(response, 'end', signal)) {
    if (event.type === 'open' && event.cursor !== null) return event.cursor;
  }
  throw invalidAnswer('The stream of events did not say where it begins.', response.status);
}
