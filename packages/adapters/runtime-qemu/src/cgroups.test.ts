import { expect, it } from 'vitest';
import { Cgroups, treesIn } from './cgroups.ts';

it('finds the trees of both forms of cgroups', () => {
  const mounts = [
    'proc /proc proc rw 0 0',
    'cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0',
    'cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0',
    'cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0',
    'cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nsdelegate 0 0',
  ].join('\n');
  expect(treesIn(mounts)).toEqual([
    { version: 1, path: '/sys/fs/cgroup/cpu,cpuacct', controllers: ['cpu'] },
    { version: 1, path: '/sys/fs/cgroup/blkio', controllers: ['io'] },
    { version: 2, path: '/sys/fs/cgroup/unified', controllers: ['memory', 'cpu', 'pids', 'io'] },
  ]);
});

it('says which limits are missing, why, and what to do, instead of failing', async () => {
  const { report } = await Cgroups.open('cgroup2 /no/such/tree cgroup2 rw 0 0');
  expect(report.inForce).toEqual([]);
  expect(report.missing.map(({ limit }) => limit)).toEqual(['memory', 'cpu', 'pids', 'io']);
  expect(report.missing[0]?.reason).toContain('/no/such/tree');
  expect(report.missing[0]?.remedy).not.toBe('');
});
