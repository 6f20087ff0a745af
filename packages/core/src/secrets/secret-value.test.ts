import { format, inspect } from 'node:util';
import { expect, it } from 'vitest';
import { SecretValue } from './secret-value.ts';

const VALUE = 'correct horse battery staple';
const secret = new SecretValue(VALUE);

it('gives the value to who asks for it by name', () => {
  expect(secret.reveal()).toBe(VALUE);
});

it.each([
  ['text', () => String(secret)],
  ['a template', () => `${secret}`],
  ['a sum of texts', () => `a${secret}`.concat(secret as never)],
  ['JSON', () => JSON.stringify({ secret, list: [secret] })],
  ['an inspection, with what is hidden', () => inspect(secret, { showHidden: true, customInspect: false, depth: 9 })],
  ['a usual inspection', () => inspect({ secret })],
  ['a formatted line', () => format('%s %o %O %j %d', secret, secret, secret, secret, secret)],
  ['an error', () => inspect(new Error(`${secret}`, { cause: secret }))],
  ['its keys', () => JSON.stringify([Object.entries(secret), Object.getOwnPropertyNames(secret), { ...secret }])],
  ['a clone', () => inspect(structuredClone(secret))],
])('does not show it in %s', (_where, show) => {
  expect(show()).not.toContain(VALUE);
  expect(show()).not.toContain('battery');
});
