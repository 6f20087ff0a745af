import { expect, it } from 'vitest';
import { startTicksOf } from './server-process.ts';

const STAT = `4711 (post) gres) S ${Array.from({ length: 30 }, (_, i) => i).join(' ')}`;

const failing = (code: string, times: number) => {
  let reads = 0;
  return async () => {
    if (++reads <= times) throw Object.assign(new Error(code), { code });
    return STAT;
  };
};

it('knows a process by its start time', async () => {
  expect(await startTicksOf(process.pid)).toMatch(/^\d+$/);
  expect(await startTicksOf(4711, failing('', 0))).toBe('18');
});

it.each(['ENOENT', 'ESRCH'])('has it gone when the kernel says %s', async (code) => {
  expect(await startTicksOf(4711, failing(code, 1))).toBeNull();
});

it.each(['EMFILE', 'EACCES', 'EIO'])(
  'does not take it for gone when it cannot be read for a while: %s',
  async (code) => {
    expect(await startTicksOf(4711, failing(code, 2))).toBe('18');
  },
);

it('says so when it cannot be read for long', async () => {
  await expect(startTicksOf(4711, failing('EMFILE', 1_000))).rejects.toMatchObject({ code: 'unavailable' });
});
