import { expect, test } from 'vitest';
import { FailedAttempts } from '../src/failed-attempts.ts';
import { FAILED_ATTEMPTS_PER_MINUTE, KNOWN_ADDRESSES, KNOWN_KEYS } from '../src/limits.ts';

let nowMs = 0;
const attemptsAt = () => new FailedAttempts(() => nowMs);

function flood(attempts: FailedAttempts, address: string): void {
  for (let i = 0; i < FAILED_ATTEMPTS_PER_MINUTE; i++) attempts.failed(address);
}

test('an address is refused after too many, others are not, and a minute later it is let in again', () => {
  const attempts = attemptsAt();
  flood(attempts, 'a');
  expect(() => attempts.check('a', 'key')).toThrow(expect.objectContaining({ code: 'too_many_attempts' }));
  expect(() => attempts.check('a', undefined)).toThrow();
  attempts.check('b', 'key');
  nowMs += 60_001;
  attempts.check('a', 'key');
});

test('of IPv6, whoever has a network has one count for all its addresses', () => {
  const attempts = attemptsAt();
  for (let i = 0; i < FAILED_ATTEMPTS_PER_MINUTE; i++) attempts.failed(`2001:db8:1:2::${i.toString(16)}`);
  expect(() => attempts.check('2001:db8:1:2:ffff::1', 'key')).toThrow(
    expect.objectContaining({ code: 'too_many_attempts' }),
  );
  expect(attempts.size.addresses).toBe(1);
  attempts.check('2001:db8:1:3::1', 'key');
});

test('a key that worked is not refused, wherever it comes from', () => {
  const attempts = attemptsAt();
  attempts.succeeded('good');
  flood(attempts, 'a');
  attempts.check('a', 'good');
  expect(() => attempts.check('a', 'bad')).toThrow();
});

test('a flood from many addresses, or with many keys, is remembered up to a limit', () => {
  const attempts = attemptsAt();
  for (let i = 0; i < KNOWN_ADDRESSES + 100; i++) attempts.failed(`address ${i}`);
  for (let i = 0; i < KNOWN_KEYS + 100; i++) attempts.succeeded(`key ${i}`);
  expect(attempts.size).toEqual({ addresses: KNOWN_ADDRESSES, keys: KNOWN_KEYS });
});
