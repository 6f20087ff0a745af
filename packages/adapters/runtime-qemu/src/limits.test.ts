import { expect, it } from 'vitest';
import { reportOn } from './limits.ts';

it('says which limits are missing, why, and what to do', () => {
  const report = reportOn({ inForce: ['cpu (cgroup v1)'], missing: ['memory', 'io'], failures: ['/no/such/tree: no'] });
  expect(report.inForce).toEqual(['cpu (cgroup v1)']);
  expect(report.missing.map(({ limit }) => limit)).toEqual(['memory', 'io']);
  expect(report.missing[0]?.reason).toContain('/no/such/tree');
  expect(report.missing[0]?.remedy).not.toBe('');
  expect(reportOn({ inForce: [], missing: ['io'], failures: [] }).missing[0]?.reason).toContain('No mounted cgroup');
});
