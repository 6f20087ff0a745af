/** What one sandbox or one organisation cannot take from the others, however much it asks for. */
import type { OrganisationId, SandboxId } from '@space/core';
import { describe, expect, it } from 'vitest';
import { HeldAskRoom } from './held-asks.ts';
import { LookedInto } from './look-into.ts';
import { OpenConnections } from './open-connections.ts';

const sandbox = (number: number) => `sbx_${number}` as SandboxId;
const organisation = (number: number) => `org_${number}` as OrganisationId;

/** How often it can be done before it is refused. */
function timesOf(work: () => unknown): number {
  for (let times = 0; ; times++) {
    try {
      work();
    } catch {
      return times;
    }
  }
}

describe('places of held requests', () => {
  it('are left for the others of an organisation, and for other organisations', () => {
    const room = new HeldAskRoom('instance', 1_000);
    const greedy = Array.from({ length: 100 }, (_, index) =>
      timesOf(() => room.take({ sandboxId: sandbox(index), organisationId: organisation(1) })),
    );
    expect(greedy[0]).toBe(16);
    expect(greedy.reduce((sum, one) => sum + one)).toBeLessThanOrEqual(128);
    expect(timesOf(() => room.take({ sandboxId: sandbox(200), organisationId: organisation(2) }))).toBe(16);
    expect(timesOf(() => room.take({ sandboxId: sandbox(300), organisationId: organisation(3) }))).toBe(16);
  });

  it('come back when they are given back', () => {
    const room = new HeldAskRoom('instance', 1_000);
    const leave = Array.from({ length: 16 }, () =>
      room.take({ sandboxId: sandbox(1), organisationId: organisation(1) }),
    );
    expect(() => room.take({ sandboxId: sandbox(1), organisationId: organisation(1) })).toThrow(/Too many/);
    leave[0]?.();
    room.take({ sandboxId: sandbox(1), organisationId: organisation(1) });
  });
});

describe('requests that are looked into', () => {
  it('are bounded over all sandboxes, and the last one still finds a place', () => {
    const looked = new LookedInto();
    const { signal } = new AbortController();
    const taken = Array.from({ length: 15 }, (_, index) => timesOf(() => looked.add(sandbox(index), signal)));
    expect(taken[0]).toBe(128);
    expect(taken.reduce((sum, one) => sum + one)).toBeLessThanOrEqual(1_024);
    expect(taken.at(-1)).toBeGreaterThan(0);
  });

  it('are counted until they are over', () => {
    const looked = new LookedInto();
    for (let count = 0; count < 5_000; count++) {
      const request = new AbortController();
      looked.add(sandbox(1), request.signal);
      request.abort();
    }
    expect(timesOf(() => looked.add(sandbox(1), new AbortController().signal))).toBe(128);
  });
});

describe('open connections', () => {
  const of = (sandboxId: SandboxId, organisationId: OrganisationId | null) => ({
    sandboxId,
    organisationId,
    activeAtMs: 0,
    judgeAgain: () => true,
    cut: () => undefined,
  });

  it('are left for other organisations, however many sandboxes one has', () => {
    const open = new OpenConnections();
    const greedy = Array.from({ length: 60 }, (_, index) =>
      timesOf(() => open.add(of(sandbox(index), organisation(1)))),
    );
    expect(greedy[0]).toBe(256);
    expect(greedy.reduce((sum, one) => sum + one)).toBe(5_000);
    expect(timesOf(() => open.add(of(sandbox(200), organisation(2))))).toBe(256);
    expect(timesOf(() => open.add(of(sandbox(300), null)))).toBe(256);
    expect(() => open.add(of(sandbox(70), organisation(1)))).toThrow(/organisation/);
  });

  it('give their places back', () => {
    const open = new OpenConnections();
    const leave = Array.from({ length: 256 }, () => open.add(of(sandbox(1), organisation(1))));
    expect(() => open.add(of(sandbox(1), organisation(1)))).toThrow(/sandbox/);
    for (const one of leave) one();
    expect(timesOf(() => open.add(of(sandbox(1), organisation(1))))).toBe(256);
  });
});
