/** A stream of events that goes on where it was interrupted. */
import { SpaceError, type SpaceErrorCode } from './errors.ts';
import type { ExecEvent } from './exec.ts';
import { pause } from './retry.ts';

export interface Position {
  readonly processId: string;
  readonly stdoutOffset: number;
  readonly stderrOffset: number;
}

/** What says nothing about the command. */
const INTERRUPTIONS: ReadonlySet<SpaceErrorCode> = new Set([
  'link_lost',
  'unavailable',
  'node_unavailable',
  'unreachable',
  'operation_in_progress',
]);

/** How long to try without one event. A server that restarts takes a few seconds. */
const PATIENCE_MS = 60_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

/** An interruption before `started` is thrown: whether the command began is then not known. */
export async function* follow(
  first: AsyncGenerator<ExecEvent>,
  reopen: (at: Position) => AsyncGenerator<ExecEvent>,
  signal: AbortSignal | undefined,
  from?: Position,
): AsyncGenerator<ExecEvent> {
  let at = from;
  let isStarted = false;
  let events = first;
  let interruption: { readonly sinceMs: number; readonly pauseMs: number } | undefined;
  try {
    for (;;) {
      let next: IteratorResult<ExecEvent>;
      try {
        next = await events.next();
      } catch (error) {
        const { sinceMs, pauseMs } = interruption ?? { sinceMs: Date.now(), pauseMs: FIRST_PAUSE_MS };
        if (at === undefined || !isInterruption(error) || Date.now() - sinceMs > PATIENCE_MS) throw error;
        interruption = { sinceMs, pauseMs: Math.min(2 * pauseMs, LONGEST_PAUSE_MS) };
        await pause(pauseMs, signal);
        events = reopen(at);
        continue;
      }
      if (next.done) return;
      interruption = undefined;
      at = advance(at, next.value);
      const isRepeated = next.value.type === 'started' && isStarted;
      isStarted = true;
      if (!isRepeated) yield next.value;
    }
  } finally {
    await events.return(undefined);
  }
}

function isInterruption(error: unknown): boolean {
  return error instanceof SpaceError && INTERRUPTIONS.has(error.code);
}

function advance(at: Position | undefined, event: ExecEvent): Position | undefined {
  switch (event.type) {
    case 'started':
      return at ?? { processId: event.processId, stdoutOffset: 0, stderrOffset: 0 };
    case 'stdout':
    case 'stderr':
      return at && { ...at, [`${event.type}Offset`]: event.offset + event.data.length };
    case 'lost':
      return at && { ...at, [`${event.stream}Offset`]: event.offset + event.sizeBytes };
    case 'exited':
      return at;
  }
}
