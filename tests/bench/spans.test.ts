import { expect, it } from 'vitest';
import { type Span, SpanReceiver, stepsOf } from './spans.ts';

/** `parent`: the id of the span that holds it. Times in milliseconds. */
const span = (traceId: string, spanId: string, name: string, [from, to]: [number, number], parent?: string): Span => ({
  traceId,
  spanId,
  name,
  ...(parent === undefined ? {} : { parentSpanId: parent }),
  startTimeUnixNano: `${from * 1e6}`,
  endTimeUnixNano: `${to * 1e6}`,
});

const CALLS = [
  span('a', '3', 'freeze', [1_030, 1_050], '2'),
  span('a', '2', 'node', [1_020, 1_090], '1'),
  span('a', '1', 'pause', [1_000, 1_100]),
  span('a', '4', 'find', [1_001, 1_005], '1'),
  span('b', '1', 'pause', [2_000, 2_300]),
  span('b', '2', 'node', [2_040, 2_240], '1'),
];

it('each step of a verb comes after what holds it, with the medians over all calls', () => {
  expect(stepsOf(CALLS).get('pause')).toEqual([
    { path: ['pause'], n: 2, startMs: 0, p50: 300 },
    { path: ['pause', 'find'], n: 1, startMs: 1, p50: 4 },
    { path: ['pause', 'node'], n: 2, startMs: 40, p50: 200 },
    { path: ['pause', 'node', 'freeze'], n: 1, startMs: 30, p50: 20 },
  ]);
});

it('a step whose call did not come in counts for nothing', () => {
  expect(stepsOf(CALLS.filter(({ name }) => name !== 'pause')).size).toBe(0);
});

it('takes what is sent by OTLP', async () => {
  await using receiver = await SpanReceiver.open();
  const body = JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: CALLS }] }] });
  expect((await fetch(`${receiver.url}/v1/traces`, { method: 'POST', body })).status).toBe(200);
  expect(receiver.spans).toEqual(CALLS);
});
