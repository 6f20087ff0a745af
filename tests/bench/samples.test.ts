import { expect, it } from 'vitest';
import { summarise } from './samples.ts';

const upTo = (n: number) => Array.from({ length: n }, (_, index) => n - index);

it('states a percentile only where there are enough samples, and says why it does not', () => {
  expect(summarise('exec', upTo(1000))).toEqual({ name: 'exec', unit: 'ms', n: 1000, p50: 500, p95: 950, p99: 990 });
  expect(summarise('exec', upTo(999))).toMatchObject({ p95: 950, p99: null, missing: 'a p99 needs 1000 samples' });
  expect(summarise('exec', upTo(99))).toMatchObject({ p50: 50, p95: null, p99: null });
});

it('reports what there is nothing of', () => {
  const absent = summarise('create.pool', [], 'there is no pool');
  expect(absent).toEqual({
    name: 'create.pool',
    unit: 'ms',
    n: 0,
    p50: null,
    p95: null,
    p99: null,
    missing: 'there is no pool',
  });
});
