/** A line of the log as the other processes write theirs, without loading what they need for it. */
import { hostname } from 'node:os';
import type { Config } from './config.ts';

/** As pino numbers it. */
const ERROR = 50;

export function logError(level: Config['logLevel'], facts: object, msg: string): void {
  if (level === 'silent') return;
  const head = { level: ERROR, time: Date.now(), pid: process.pid, hostname: hostname(), name: 'supervisor' };
  process.stdout.write(`${JSON.stringify({ ...head, ...facts, msg })}\n`);
}
