/** The guest agent: the program that is PID 1 of every guest. */
import { join } from 'node:path';
import { z } from 'zod';
import { buildCrate, digestCrate } from './crate.ts';
import { digestTree, digestValue } from './digest.ts';

const note = z.strictObject({ version: z.string(), digest: z.string() }).readonly();
export type AgentNote = z.infer<typeof note>;
export const parseAgentNote = (value: unknown): AgentNote => note.parse(value);

export const agentPath = (dir: string): string => join(dir, 'agent');

const crateDir = join(import.meta.dirname, '../../agent');
const protoDir = join(import.meta.dirname, '../../proto');

export async function digestAgentSources(): Promise<string> {
  const crate = await digestCrate(crateDir);
  const proto = await digestTree(protoDir, { keep: (path) => path === 'space' || path.startsWith('space/') });
  return digestValue({ crate, proto });
}

export const buildAgent = (dir: string, signal: AbortSignal): Promise<AgentNote> =>
  buildCrate(crateDir, agentPath(dir), signal);
