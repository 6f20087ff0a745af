/** The stream of events: read from the outbox in pieces, and looked at again while somebody follows it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller, Input, PlatformEvent } from '@space/contract';
import { authorise, SharedPlaces } from '@space/core';
import type { EventsRequest } from './event-records.ts';
import type { ControlPorts } from './ports.ts';
import { retryUnavailable } from './retry.ts';
import { stoppable } from './streams.ts';
import { viewEvent } from './views.ts';

const PIECE = 100;
const LOOK_EVERY_MS = 250;
/** Each looks at the database four times a second. */
const MAX_FOLLOWERS = 200;
const KEPT_MS = 7 * 24 * 60 * 60 * 1000;

export class EventUseCases {
  readonly #ports: ControlPorts;
  readonly #followers = new SharedPlaces(MAX_FOLLOWERS, 'streams that follow events');

  constructor(ports: ControlPorts) {
    this.#ports = ports;
  }

  listEvents(caller: Caller, input: Input<'listEvents'>): AsyncIterable<PlatformEvent> {
    return stoppable(caller.signal, (signal) => this.#events({ ...caller, signal }, input));
  }

  async dropOld(): Promise<void> {
    await this.#ports.records.events.dropBefore(new Date(this.#ports.clock.now() - KEPT_MS));
  }

  async *#events(caller: Caller, { after, follow }: Input<'listEvents'>): AsyncGenerator<PlatformEvent, void> {
    const leave = follow ? this.#followers.enter(caller.principal.organisationId) : null;
    try {
      const { events } = this.#ports.records;
      const from = after === 'latest' ? await retryUnavailable(() => events.latest()) : (after ?? null);
      let request: EventsRequest = { ...scopeOf(caller), after: from, limit: PIECE };
      for (let isFirst = true; ; isFirst = false) {
        caller.signal.throwIfAborted();
        const piece = await retryUnavailable(() => events.list(request));
        // At once, so that who follows where nothing happens knows that it does, and from where.
        if (isFirst) yield { type: 'open', cursor: from };
        for (const event of piece) yield viewEvent(event);
        request = { ...request, after: piece.at(-1)?.cursor ?? request.after };
        if (piece.length === PIECE) continue;
        if (!follow) return;
        await sleep(LOOK_EVERY_MS, undefined, { signal: caller.signal });
      }
    } finally {
      leave?.();
    }
  }
}

/** Those of the project; and of the organisation, for who may see its keys. */
function scopeOf({ principal, projectId }: Caller): Pick<EventsRequest, 'projectId' | 'organisationId'> {
  const { organisationId } = principal;
  const { allowed } = authorise(principal, 'key.read', { kind: 'organisation', organisationId });
  return { projectId, organisationId: allowed ? organisationId : null };
}
