/** Records that nobody takes for long: who is loud loses its own, and what is lost is counted. */
import type { OrganisationId, SandboxId } from '@space/core';
import { expect, it } from 'vitest';
import { type NewRecord, Recorder } from '../src/recorder.ts';
import { ORGANISATION } from './world.ts';

const OTHER = 'org_0000000000000009' as OrganisationId;
const MAX_KEPT = 20_000;

const recordOf = (sandboxId: SandboxId, path: string) => ({
  sandboxId,
  lifeId: 'lif_0000000000000001' as NewRecord['lifeId'],
  at: new Date(0).toISOString(),
  ...{ protocol: 'http' as const, host: 'a.example', port: 443, method: 'GET', path, calls: null, secret: null },
  ...{ approval: null, rule: 'internet', outcome: 'allowed' as const, status: 200 },
  ...{ sentBytes: 1, receivedBytes: 2, durationMs: 3 },
});

const LOUD = 'sbx_0000000000000001' as SandboxId;
const QUIET = 'sbx_0000000000000002' as SandboxId;
const ELSEWHERE = 'sbx_0000000000000003' as SandboxId;

function takeAll(recorder: Recorder) {
  const all = [];
  for (let next = 0; ; ) {
    const taken = recorder.take(next);
    if (taken.records.length === 0) return all;
    all.push(...taken.records);
    next = taken.next;
  }
}

it('keeps those of other sandboxes and organisations from one that is loud, and counts what that one has lost', () => {
  const recorder = new Recorder();
  const told = 2 * MAX_KEPT;
  recorder.add(recordOf(QUIET, '/first'), ORGANISATION);
  for (let i = 0; i < 500; i++) recorder.add(recordOf(ELSEWHERE, `/${i}`), OTHER);
  for (let i = 0; i < told; i++) recorder.add(recordOf(LOUD, `/${i}`), ORGANISATION);
  recorder.add(recordOf(QUIET, '/last'), ORGANISATION);
  const all = takeAll(recorder);
  const of = (id: SandboxId) => all.filter(({ sandboxId }) => sandboxId === id);
  expect(of(QUIET)).toMatchObject([
    { path: '/first', lostBefore: 0 },
    { path: '/last', lostBefore: 0 },
  ]);
  expect(of(ELSEWHERE).map(({ path }) => path)).toEqual(Array.from({ length: 500 }, (_, i) => `/${i}`));
  expect(of(LOUD).at(-1)).toMatchObject({ path: `/${told - 1}` });
  expect(of(LOUD).length + of(LOUD).reduce((sum, { lostBefore }) => sum + lostBefore, 0)).toBe(told);
  expect(all.length).toBeGreaterThan(MAX_KEPT - 200);
  expect(all.length).toBeLessThanOrEqual(MAX_KEPT);
});

it('takes from who has the most, so that two that are loud have about the same', () => {
  const recorder = new Recorder();
  for (let i = 0; i < 2 * MAX_KEPT; i++) recorder.add(recordOf(LOUD, '/'), ORGANISATION);
  for (let i = 0; i < MAX_KEPT; i++) recorder.add(recordOf(ELSEWHERE, '/'), OTHER);
  const mine = takeAll(recorder).filter(({ sandboxId }) => sandboxId === LOUD);
  expect(Math.abs(mine.length - MAX_KEPT / 2)).toBeLessThan(200);
});

it('gives again what was not said to have arrived, and forgets what was', () => {
  const recorder = new Recorder();
  for (let i = 0; i < 1_500; i++) recorder.add(recordOf(LOUD, `/${i}`), ORGANISATION);
  const first = recorder.take(0);
  expect(recorder.take(0)).toEqual(first);
  const second = recorder.take(first.next);
  expect([first.records.length, second.records.length]).toEqual([1_000, 500]);
  expect(recorder.take(second.next)).toEqual({ records: [], next: second.next });
  expect(recorder.take(0).records).toEqual([]);
});

it('counts those of a sandbox of which none is kept in its next one', () => {
  const recorder = new Recorder();
  for (let i = 0; i <= MAX_KEPT; i++)
    recorder.add(recordOf(`sbx_${String(i).padStart(16, '0')}` as SandboxId, '/'), ORGANISATION);
  const first = 'sbx_0000000000000000' as SandboxId;
  recorder.add(recordOf(first, '/'), ORGANISATION);
  expect(takeAll(recorder).find(({ sandboxId }) => sandboxId === first)).toMatchObject({ lostBefore: 1 });
});
