/** A line of the log as the other processes write theirs, without loading what they need for it. */
import { hostname } from 'node:os';
import type { Config } from './config.ts';

const LEVELS = { debug: 20, info: 30, warn: 40, error: 50, silent: Number.POSITIVE_INFINITY } as const;

export function logLine(from: Config['logLevel'], level: 'warn' | 'error', facts: object, msg: string): void {
  if (LEVELS[level] < LEVELS[from]) return;
  const head = { level: LEVELS[level], time: Date.now(), pid: process.pid, hostname: hostname(), name: 'supervisor' };
  process.stdout.write(`${JSON.stringify({ ...head, ...facts, msg })}\n`);
}
