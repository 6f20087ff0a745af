/** What a cron expression means where clocks are set forward and back: the library's answer, held fast. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { firstTime, nextTime } from '../src/cron.ts';

function times(cron: string, timeZone: string, from: string, count: number): string[] {
  const found: string[] = [];
  for (let at: Date | null = new Date(from); at !== null && found.length < count; ) {
    at = nextTime({ cron, timeZone }, at);
    if (at !== null) found.push(at.toISOString().slice(0, 16));
  }
  return found;
}

describe('a cron expression', () => {
  it('keeps to the wall clock of its zone', () => {
    expect(times('0 9 * * MON', 'America/New_York', '2026-03-01T00:00:00Z', 2)).toEqual([
      '2026-03-02T14:00',
      '2026-03-09T13:00',
    ]);
  });

  it('comes right after the gap when the clock skips its time of day, once that day', () => {
    // In Berlin, 02:30 is not on 29 March 2026.
    expect(times('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', 2)).toEqual([
      '2026-03-29T01:00',
      '2026-03-30T00:30',
    ]);
  });

  it('comes once when its time of day comes twice', () => {
    expect(times('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', 2)).toEqual([
      '2026-10-25T00:30',
      '2026-10-26T01:30',
    ]);
  });

  it('goes on through the hour that comes twice when it is an interval', () => {
    expect(times('*/30 * * * *', 'Europe/Berlin', '2026-10-24T23:59:00Z', 5)).toEqual([
      '2026-10-25T00:00',
      '2026-10-25T00:30',
      '2026-10-25T01:00',
      '2026-10-25T01:30',
      '2026-10-25T02:00',
    ]);
  });

  it.each([
    ['60 * * * *', 'UTC', 'cron'],
    ['* * * * * *', 'UTC', 'cron'],
    ['@reboot', 'UTC', 'cron'],
    ['0 0 31 2 *', 'UTC', 'cron'],
    ['@daily', 'Mars/Olympus', 'timeZone'],
  ])('%s in %s is refused, and says by what', (cron, timeZone, field) => {
    expect(() => firstTime({ cron, timeZone }, new Date(0))).toThrow(
      expect.objectContaining({ code: 'bad_request', facts: { place: 'body', field } }),
    );
  });

  it('comes strictly later each time, whatever the zone and the moment', () => {
    const zone = fc.constantFrom('UTC', 'Europe/Berlin', 'America/Sao_Paulo', 'Australia/Lord_Howe', 'Asia/Kathmandu');
    const cron = fc.constantFrom(
      '30 2 * * *',
      '*/7 * * * *',
      '0 0 1 * *',
      '15,45 1-3 * * *',
      '@weekly',
      '0 12 * * 5#L',
    );
    const from = fc.date({ min: new Date('2020-01-01'), max: new Date('2040-01-01'), noInvalidDate: true });
    fc.assert(
      fc.property(zone, cron, from, (timeZone, one, after) => {
        const next = firstTime({ cron: one, timeZone }, after);
        expect(next.getTime()).toBeGreaterThan(after.getTime());
        expect(firstTime({ cron: one, timeZone }, next).getTime()).toBeGreaterThan(next.getTime());
      }),
    );
  });
});
