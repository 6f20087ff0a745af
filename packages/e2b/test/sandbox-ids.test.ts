import { randomBytes } from 'node:crypto';
import { newId } from '@space/core';
import { expect, it } from 'vitest';
import { fromE2bId, toE2bId } from '../src/sandbox-ids.ts';

it('an id of ours is a label of a host and back again', () => {
  const id = newId('sandbox', { bytes: (count) => randomBytes(count) });
  expect(toE2bId(id)).toMatch(/^[a-z0-9]{1,63}$/);
  expect(fromE2bId(toE2bId(id))).toBe(id);
  expect(fromE2bId(id)).toBe(id);
  expect(fromE2bId(`${toE2bId(id)}-0badcafe`)).toBe(id);
});

it.each(['', 'sbx', 'sbx_', 'i0123456789abcdefghij', 'sbxiiiiiiiiiiiiiiii', 'snp0123456789abcdef', '../sbx'])(
  '%j is no id',
  (given) => expect(fromE2bId(given)).toBeUndefined(),
);
