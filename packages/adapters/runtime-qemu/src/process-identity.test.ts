import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { killProcess } from '../test/kill.ts';
import { identify, isAlive, parseStat, usageOf } from './process-identity.ts';

const FIELDS = Array.from({ length: 50 }, (_, index) => String(index + 4));

it('reads past a name that looks like fields', () => {
  const text = `42 (evil) R 1 (x) S ${FIELDS.join(' ')}`;
  expect(parseStat(text)).toEqual({ state: 'S', startTime: '22', cpuTicks: 14 + 15 });
});

it('takes a process with the same pid and another start time for dead, and does not touch it', async () => {
  const self = await identify(process.pid);
  if (!self) throw new Error('this process is not there');
  expect(await isAlive(self)).toBe(true);
  const earlier = { pid: self.pid, startTime: String(Number(self.startTime) - 1) };
  expect(await isAlive(earlier)).toBe(false);
  await killProcess(earlier);
  expect(await usageOf(earlier)).toBeNull();
  expect((await usageOf(self))?.memoryBytes).toBeGreaterThan(0);
  expect(await isAlive(self)).toBe(true);
});

it('kills with proof of death, and knows a zombie for dead', async () => {
  const child = spawn('/bin/sleep', ['60'], { cwd: '/proc/self/fd', stdio: 'ignore' });
  const identity = await identify(child.pid ?? 0);
  if (!identity) throw new Error('the child is not there');
  const exited = once(child, 'exit');
  await killProcess(identity);
  expect(await isAlive(identity)).toBe(false);
  await exited;
  expect(await identify(identity.pid)).toBeNull();
});
