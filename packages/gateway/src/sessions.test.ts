import type { SandboxId } from '@space/core';
import { expect, it } from 'vitest';
import { Sessions } from './sessions.ts';

const ONE = 'sbx_1' as SandboxId;
const OTHER = 'sbx_2' as SandboxId;
const HOST = { host: 'a.test', port: 443 };
const TICKET = { ticket: Buffer.from('ticket'), provedAtMs: 0 };

it.each([
  ['another sandbox', OTHER, HOST, ['h2']],
  ['another host', ONE, { ...HOST, host: 'b.test' }, ['h2']],
  ['another port', ONE, { ...HOST, port: 8443 }, ['h2']],
  ['other protocols', ONE, HOST, ['http/1.1']],
] as const)('a session is not that of %s', (_what, sandboxId, target, protocols) => {
  const sessions = new Sessions(() => 1);
  sessions.of(ONE, HOST, ['h2']).keep(TICKET);
  expect(sessions.of(sandboxId, target, protocols).find()).toBeNull();
  expect(sessions.of(ONE, HOST, ['h2']).find()).toBe(TICKET);
});

it('what a host has proved is believed for ten minutes, and no longer for being resumed', () => {
  let now = 0;
  const own = new Sessions(() => now).of(ONE, HOST, []);
  own.keep(TICKET);
  now = 10 * 60_000 - 1;
  expect(own.find()).toBe(TICKET);
  now += 1;
  expect(own.find()).toBeNull();
});

it('no more are kept than a bound, the latest', () => {
  const sessions = new Sessions(() => 1);
  const all = Array.from({ length: 2_001 }, (_, port) => sessions.of(ONE, { ...HOST, port }, []));
  for (const one of all) one.keep(TICKET);
  expect(all.map((one) => one.find()).filter((found) => found === null).length).toBe(1);
});
