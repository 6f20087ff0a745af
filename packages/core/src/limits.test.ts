import { expect, it } from 'vitest';
import { OPERATIONS, SETTLED_STATES } from './lifecycle.ts';
import { addedBy, checkLimits, holdsVm, NO_LIMITS } from './limits.ts';

const usage = { sandboxes: 5, running: 5, snapshots: 5, memoryMib: 2560 };

it('refuses what would pass a limit, and says which and by how much', () => {
  const limits = { ...NO_LIMITS, running: 4 };
  const facts = { limit: 'running', max: 4, wouldBe: 5 };
  expect(() => checkLimits(limits, usage, ['sandboxes', 'running'])).toThrow(
    expect.objectContaining({ code: 'limit_reached', facts }),
  );
  expect(() => checkLimits({ ...limits, running: 5 }, usage, ['running'])).not.toThrow();
  expect(() => checkLimits(NO_LIMITS, usage, ['sandboxes', 'running', 'snapshots', 'memoryMib'])).not.toThrow();
});

it('never looks at what is not added to, so that a pause, a delete and a use of what runs go on', () => {
  expect(() => checkLimits({ ...NO_LIMITS, running: 0 }, usage, ['snapshots'])).not.toThrow();
  for (const settled of SETTLED_STATES) {
    expect(addedBy('pause', settled, false)).toEqual([]);
    expect(addedBy('delete', settled, false)).toEqual([]);
  }
  expect(addedBy('rewind', 'running', false)).toEqual([]);
});

it('counts a VM from the begin of what starts it to the end of what stops it', () => {
  for (const operation of [...OPERATIONS, null]) expect(holdsVm({ settled: 'running', operation })).toBe(true);
  expect(holdsVm({ settled: 'absent', operation: 'create' })).toBe(true);
  expect(holdsVm({ settled: 'paused', operation: 'resume' })).toBe(true);
  expect(holdsVm({ settled: 'paused', operation: 'snapshot' })).toBe(false);
  expect(holdsVm({ settled: 'deleted', operation: null })).toBe(false);
});
