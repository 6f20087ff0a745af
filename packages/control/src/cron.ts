/** Cron expressions in a time zone. What one means, also where clocks are set forward or back, is the library's (ADR). */
import { AppError } from '@space/core';
import { Cron } from 'croner';

export interface CronTimes {
  readonly cron: string;
  readonly timeZone: string;
}

/** The first time after `after`; null: it does not come again. Throws `bad_request` for what is none. */
export function nextTime({ cron, timeZone }: CronTimes, after: Date): Date | null {
  checkTimeZone(timeZone);
  try {
    return new Cron(cron, { timezone: timeZone, mode: '5-part', paused: true }).nextRun(after);
  } catch (cause) {
    const detail = `cron is "${cron}": ${cause instanceof Error ? cause.message.replace(/^CronPattern: /, '') : ''}`;
    throw new AppError('bad_request', { detail, facts: { place: 'body', field: 'cron' } }, { cause });
  }
}

/** As `nextTime`, for one that must come: throws `bad_request` when it never does, like 31 February. */
export function firstTime(times: CronTimes, after: Date): Date {
  const first = nextTime(times, after);
  if (first !== null) return first;
  throw new AppError('bad_request', {
    detail: `cron is "${times.cron}": that never comes.`,
    facts: { place: 'body', field: 'cron' },
  });
}

function checkTimeZone(timeZone: string): void {
  try {
    new Intl.DateTimeFormat('en', { timeZone });
  } catch (cause) {
    const detail = `timeZone is "${timeZone}": that is no IANA time zone; one is like Europe/Berlin.`;
    throw new AppError('bad_request', { detail, facts: { place: 'body', field: 'timeZone' } }, { cause });
  }
}
