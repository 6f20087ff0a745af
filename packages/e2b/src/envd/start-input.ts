/** What the use-case of a command is asked for a Start of E2B's. */
import { Code, ConnectError } from '@connectrpc/connect';
import { type LabelledExec, schemas } from '@space/contract';
import type { StartRequest } from '../../gen/process_pb.ts';
import { checkUser, type EnvdCall } from './call.ts';
import { environmentOf } from './environment.ts';
import { labelFor } from './process-label.ts';

interface Limits {
  readonly cwd?: string;
  readonly timeoutMs?: number;
}

const DEFAULT_TERMINAL = { cols: 80, rows: 24 };

export function execInput(request: StartRequest, call: EnvdCall, limits: Limits): LabelledExec {
  const { process, pty, stdin } = request;
  if (process === undefined || process.cmd === '') throw invalid('no command was given');
  const { cols, rows } = pty?.size ?? DEFAULT_TERMINAL;
  const { TERM: term } = process.envs;
  const parsed = schemas.execBody.safeParse({
    argv: [process.cmd, ...process.args],
    env: { ...environmentOf(call.target).own, ...process.envs },
    user: checkUser(call.user),
    ...(pty === undefined ? { stdin: stdin ?? true } : { pty: { cols, rows, ...(term && { term }) } }),
    ...(limits.cwd !== undefined && { cwd: limits.cwd }),
    ...(limits.timeoutMs !== undefined && { timeoutMs: Math.max(1, Math.ceil(limits.timeoutMs)) }),
  });
  if (parsed.success) return { ...parsed.data, id: call.sandboxId, label: labelFor(request) };
  const [issue] = parsed.error.issues;
  throw invalid(`${issue?.path.join('.')}: ${issue?.message}`);
}

function invalid(message: string): ConnectError {
  return new ConnectError(message, Code.InvalidArgument);
}
