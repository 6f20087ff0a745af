/** E2B's service of processes, by the use-cases of commands. */
import { posix } from 'node:path';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { AppError, type GuestProcess } from '@space/core';
import { type Process, ProcessConfigSchema, type ProcessInfoSchema, Signal } from '../../gen/process_pb.ts';
import { callOf, type EnvdCall, withDeadline } from './call.ts';
import { keepaliveMsOf } from './keepalive.ts';
import { pathFrom } from './paths.ts';
import { toldEvents } from './process-events.ts';
import { closeInput, sendInput, streamInput } from './process-input.ts';
import { labelIn } from './process-label.ts';
import { selectProcess } from './select-process.ts';
import { execInput } from './start-input.ts';
import type { Turns } from './turns.ts';
import type { Users } from './users.ts';

/** So long after the deadline of a command its end must have come; it is killed in the sandbox, at the deadline. */
const GRACE_MS = 10_000;
const KEEPALIVE_HEADER = 'keepalive-ping-interval';

export function processService({
  users,
  turns,
}: {
  readonly users: Users;
  readonly turns: Turns;
}): ServiceImpl<typeof Process> {
  return {
    async list(_, context) {
      const call = callOf(context);
      const processes = await call.useCases.listProcesses(call.caller, { id: call.sandboxId, ended: false });
      return { processes: processes.filter(({ leaderAlive }) => leaderAlive).map(infoOf) };
    },

    async *start(request, context) {
      const timeoutMs = context.timeoutMs();
      const call = overdue(callOf(context), timeoutMs);
      const config = request.process ?? create(ProcessConfigSchema);
      // Where it is plain, nobody is asked: most commands say none, or an absolute one.
      const given = config.cwd || (call.target.defaultCwd ?? undefined);
      const cwd = given?.startsWith('/') ? posix.resolve(given) : given && pathFrom(await users.find(call), given);
      const telling = {
        isTerminal: request.pty !== undefined,
        keepaliveMs: keepaliveMsOf(context.requestHeader.get(KEEPALIVE_HEADER)),
        onTimedOut: tookTooLong,
      };
      let begun = false;
      try {
        const input = execInput(request, call, { ...(cwd && { cwd }), ...(timeoutMs !== undefined && { timeoutMs }) });
        for await (const event of toldEvents(call.useCases.exec(call.caller, input), telling)) {
          begun = true;
          yield { event };
        }
      } catch (thrown) {
        call.caller.signal.throwIfAborted();
        throw begun ? thrown : await reasonOf(thrown, call, { cwd, users });
      }
      call.caller.signal.throwIfAborted();
    },

    async *connect(request, context) {
      const call = withDeadline(callOf(context), context);
      const process = await selectProcess(call, request.process, { ended: true });
      // What was printed before belongs to whoever was there.
      const position = {
        id: call.sandboxId,
        processId: process.processId,
        stdoutOffset: process.stdoutBytes,
        stderrOffset: process.stderrBytes,
      };
      const telling = {
        isTerminal: process.pty,
        keepaliveMs: keepaliveMsOf(context.requestHeader.get(KEEPALIVE_HEADER)),
      };
      for await (const event of toldEvents(call.useCases.attachProcess(call.caller, position), telling)) {
        yield { event };
      }
      call.caller.signal.throwIfAborted();
    },

    async update({ process: selector, pty }, context) {
      const call = withDeadline(callOf(context), context);
      const { processId } = await selectProcess(call, selector);
      if (pty?.size === undefined) return {};
      const { cols, rows } = pty.size;
      await call.useCases.resizeTerminal(call.caller, { id: call.sandboxId, processId, cols, rows });
      return {};
    },

    sendInput: ({ process, input }, context) =>
      sendInput(withDeadline(callOf(context), context), turns, { selector: process, input }),
    streamInput: (requests, context) => streamInput(withDeadline(callOf(context), context), turns, requests),
    closeStdin: ({ process }, context) => closeInput(withDeadline(callOf(context), context), turns, process),

    async sendSignal({ process: selector, signal }, context) {
      const call = withDeadline(callOf(context), context);
      const { processId } = await selectProcess(call, selector);
      await call.useCases.signalProcess(call.caller, { id: call.sandboxId, processId, ...signalOf(signal) });
      return {};
    },
  };
}

function infoOf({
  pid,
  argv: [cmd = '', ...args],
  cwd,
  label,
}: GuestProcess): MessageInitShape<typeof ProcessInfoSchema> {
  const { tag, envs = {} } = labelIn(label);
  return { pid, config: { cmd, args, cwd, envs }, ...(tag !== undefined && { tag }) };
}

/** SIGKILL is for all that the command has started: what is left of it would live on unseen. */
function signalOf(signal: Signal) {
  switch (signal) {
    case Signal.SIGKILL:
      return { signal: 'SIGKILL', target: 'tree' } as const;
    case Signal.SIGTERM:
      return { signal: 'SIGTERM', target: 'leader' } as const;
    default:
      throw new ConnectError(`invalid signal: ${signal}`, Code.Unimplemented);
  }
}

function tookTooLong(): ConnectError {
  return new ConnectError('the operation timed out', Code.DeadlineExceeded);
}

/** The call, which ends by itself where the sandbox does not keep to the deadline. */
function overdue(call: EnvdCall, timeoutMs: number | undefined): EnvdCall {
  if (timeoutMs === undefined) return call;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(tookTooLong()), timeoutMs + GRACE_MS);
  call.caller.signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
  return { ...call, caller: { ...call.caller, signal: AbortSignal.any([call.caller.signal, late.signal]) } };
}

/** Why a command was not started, as the SDKs tell it. Looked for only then, so that one that starts costs nothing more. */
async function reasonOf(
  thrown: unknown,
  call: EnvdCall,
  { cwd, users }: { readonly cwd: string | undefined; readonly users: Users },
): Promise<unknown> {
  if (!(thrown instanceof AppError) || thrown.code !== 'command_not_started') return thrown;
  await users.find(call);
  if (!cwd) return thrown;
  const isThere = await call.useCases.statFile(call.caller, { id: call.sandboxId, path: cwd, user: 'root' }).then(
    () => true,
    () => false,
  );
  return isThere
    ? thrown
    : new ConnectError(`cwd '${cwd}' does not exist`, Code.InvalidArgument, undefined, undefined, thrown);
}
