import { expect, it } from 'vitest';
import type { Series } from './growth-report.ts';
import { plotsOf } from './plots.ts';

const at = (x: number | string, p50: number) => ({
  x,
  results: [{ name: 'pause', unit: 'ms' as const, n: 10, p50, p95: null, p99: null }],
});

it('draws each series of at least three points, with what varies and what was measured, the same each time', async () => {
  const size: Series = { varies: 'MiB of memory', points: [at(256, 100), at(512, 110), at(1024, 130)] };
  const throughput: Series = { varies: 'snapshots', points: [at('none', 1), at('every minute', 2)] };
  const plots = await plotsOf({ series: { size, throughput } });
  expect([...plots.keys()]).toEqual(['size']);
  expect(plots.get('size')).toContain('MiB of memory');
  expect(plots.get('size')).toContain('pause');
  expect(await plotsOf({ series: { size, throughput } })).toEqual(plots);
});
