/**
 * The log of a sandbox, of what is known of it: what happened to it, as the events of its project tell. What its commands print is in
 * their own output, and what its kernel does has no time of its own.
 */
import type { PlatformEvent } from '@space/contract';
import { schemas } from '@space/contract';
import { parsePart } from '@space/http/parts';
import { z } from 'zod';
import { type E2bAnswer, type E2bCall, onSandbox } from './call.ts';

const MAX_LINES = 1_000;
const MAX_MS = 1e14;
const LEVELS = ['debug', 'info', 'warn', 'error'] as const;
type Level = (typeof LEVELS)[number];

const firstQuery = z.strictObject({
  start: schemas.queryInteger(0, MAX_MS).optional(),
  limit: schemas.queryInteger(0, MAX_LINES).optional(),
});

const query = z.strictObject({
  cursor: schemas.queryInteger(0, MAX_MS).optional(),
  limit: schemas.queryInteger(0, MAX_LINES).optional(),
  direction: z.enum(['forward', 'backward']).optional(),
  level: z.enum(LEVELS).optional(),
  search: z.string().max(256).optional(),
});

interface Line {
  readonly timestamp: string;
  readonly level: Level;
  readonly message: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** The call that the other took the place of. */
export function listFirstLogs(call: E2bCall): Promise<E2bAnswer> {
  const { start = 0, limit = MAX_LINES } = parsePart(firstQuery, call.query, 'query') as z.output<typeof firstQuery>;
  return onSandbox(call, async (id) => {
    await call.platform.useCases.getSandbox(call.caller, { id });
    const lines = (await linesOf(call, id)).filter(({ timestamp }) => Date.parse(timestamp) >= start).slice(0, limit);
    const logs = lines.map(({ timestamp, message }) => ({ timestamp, line: message }));
    return { status: 200, body: { logs, logEntries: lines } };
  });
}

export function listLogs(call: E2bCall): Promise<E2bAnswer> {
  const asked = parsePart(query, call.query, 'query') as z.output<typeof query>;
  const { cursor, limit = MAX_LINES, direction = 'forward', level = 'debug', search = '' } = asked;
  return onSandbox(call, async (id) => {
    await call.platform.useCases.getSandbox(call.caller, { id });
    const isForward = direction === 'forward';
    const from = cursor ?? (isForward ? 0 : Number.POSITIVE_INFINITY);
    const shown = (await linesOf(call, id)).filter(
      (line) =>
        (isForward ? Date.parse(line.timestamp) >= from : Date.parse(line.timestamp) <= from) &&
        LEVELS.indexOf(line.level) >= LEVELS.indexOf(level) &&
        line.message.includes(search),
    );
    return { status: 200, body: { logs: (isForward ? shown : shown.toReversed()).slice(0, limit) } };
  });
}

/** In the order in which it happened; of more than there may be, the newest. */
async function linesOf({ platform, caller }: E2bCall, sandboxId: string): Promise<readonly Line[]> {
  const lines: Line[] = [];
  for await (const event of platform.useCases.listEvents(caller, { follow: false })) {
    if (event.type !== 'event' || event.sandboxId !== sandboxId) continue;
    lines.push(lineOf(event));
    if (lines.length > MAX_LINES) lines.shift();
  }
  return lines;
}

const TROUBLE: ReadonlySet<string> = new Set([
  'sandbox.crashed',
  'sandbox.not_paused',
  'snapshot.bad',
  'archive.failed',
]);

function lineOf({ at, kind, operation, state, code }: Extract<PlatformEvent, { type: 'event' }>): Line {
  const fields = Object.fromEntries(
    Object.entries({ operation, state, code }).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
  const level = TROUBLE.has(kind) || state === 'failed' ? 'error' : 'info';
  return { timestamp: at, level, message: [kind, ...Object.values(fields)].join(' '), fields };
}
