/** Commands in a sandbox: what starts one, the events of its stream, and the processes that are left. */
import { z } from 'zod';
import { MAX_ARGUMENT_LENGTH, MAX_ARGUMENTS, MAX_EXEC_TIMEOUT_MS, MAX_TERMINAL_LENGTH } from '../limits.ts';
import { SIGNALS, type SignalName } from '../signals.ts';
import {
  absoluteGuestPath,
  env,
  guestUser,
  processId,
  queryBoolean,
  queryInteger,
  sandboxReference,
  text,
  timestamp,
} from './fields.ts';
import { errorEvent } from './problem.ts';

/** What runs a `command`: these, then the command as one argument. */
export const SHELL_ARGV = ['/bin/bash', '-lc'] as const;

const terminalLength = z.number().int().min(1).max(MAX_TERMINAL_LENGTH);
const terminalSize = { cols: terminalLength, rows: terminalLength };

interface Commands {
  readonly command?: unknown;
  readonly argv?: unknown;
}

/** For `refine`: whether a body says in one way what to run. */
export const exactlyOneCommand = [
  ({ command, argv }: Commands) => (command === undefined) !== (argv === undefined),
  'exactly one of command and argv must be given',
] as const;

export const execBody = z
  .strictObject({
    command: text(MAX_ARGUMENT_LENGTH)
      .min(1)
      .exactOptional()
      .meta({ description: 'A line of shell, run as `/bin/bash -lc <command>`. Exactly one of this and argv.' }),
    argv: z
      .array(text(MAX_ARGUMENT_LENGTH))
      .min(1)
      .max(MAX_ARGUMENTS)
      .refine((argv) => argv[0] !== '', 'must start with a program')
      .exactOptional()
      .meta({ description: 'Program (looked up in PATH) and arguments, run without a shell.' }),
    env: env.exactOptional().meta({ description: "Added to the sandbox's environment, and stronger." }),
    cwd: absoluteGuestPath
      .exactOptional()
      .meta({ description: "Absolute path of the directory to start in; left out: the user's home." }),
    user: guestUser.exactOptional(),
    timeoutMs: z
      .number()
      .int()
      .min(1)
      .max(MAX_EXEC_TIMEOUT_MS)
      .exactOptional()
      .meta({
        description:
          'After this time the whole process tree is killed, and `exited` says `timedOut`. Left out: no limit. ' +
          'Root in the sandbox can take a process out of the tree. ' +
          'Counted while the sandbox runs, whether or not anybody reads.',
      }),
    stdin: z.boolean().exactOptional().meta({
      description: 'Whether it takes input, by the call for it. Left out or false: its stdin is /dev/null.',
    }),
    keepAwake: z.boolean().exactOptional().meta({
      description: 'Whether the sandbox is not paused as idle while the process, or what it left, is alive.',
    }),
    checkpoint: z
      .boolean()
      .exactOptional()
      .meta({
        description:
          'Whether a snapshot is taken when it ends. A stream that is still read gives `exited` after that; when none could ' +
          'be taken, the timeline says why.',
      }),
    pty: z
      .strictObject({
        ...terminalSize,
        term: z
          .string()
          .regex(/^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$/, 'must be the name of a terminal type')
          .exactOptional()
          .meta({ description: 'The variable TERM; `xterm-256color` when left out.' }),
      })
      .exactOptional()
      .meta({
        description: 'Run it on a terminal of this size. Its one output is `stdout`, and it takes input.',
      }),
  })
  .refine(...exactlyOneCommand)
  .meta({ id: 'Exec', oneOf: [{ required: ['command'] }, { required: ['argv'] }] });

const byteCount = z.number().int().min(0);

const offset = byteCount.meta({ description: 'Position of its first byte in the stream.' });

const outputOf = <S extends 'stdout' | 'stderr'>(stream: S) =>
  z.strictObject({ type: z.literal(stream), offset, data: z.base64().meta({ description: 'Bytes, base64.' }) });

const end = {
  exitCode: z.number().int().min(0).max(255).nullable().meta({
    description: 'From wait(2); null when a signal ended the process.',
  }),
  signal: z
    .string()
    .regex(/^SIG[A-Z0-9]+$/)
    .nullable()
    .meta({ description: 'The signal that ended it, e.g. SIGKILL; null when it exited by itself.' }),
  timedOut: z.boolean().meta({ description: 'Whether it was killed because timeoutMs had passed.' }),
  oom: z.boolean().meta({
    description: 'Whether the sandbox ran out of memory and its kernel killed the command or a child of it.',
  }),
};

const started = { processId, pid: z.number().int().positive().meta({ description: 'As seen in the sandbox.' }) };

export const execEvent = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('started'), ...started }),
    outputOf('stdout'),
    outputOf('stderr'),
    z
      .strictObject({ type: z.literal('lost'), stream: z.enum(['stdout', 'stderr']), offset, sizeBytes: byteCount })
      .meta({ description: 'Output that is not given: nobody read it in time, or another reader was faster.' }),
    z.strictObject({ type: z.literal('exited'), ...end }),
    errorEvent,
  ])
  .meta({ id: 'ExecEvent' });

export const startedProcess = z.strictObject(started).meta({ id: 'StartedProcess' });

export const processList = z
  .strictObject({
    processes: z
      .array(
        z
          .strictObject({
            ...started,
            argv: z.array(z.string()),
            cwd: z.string().meta({ description: 'Where it was started.' }),
            pty: z.boolean(),
            startedAt: timestamp.meta({ description: 'By the clock of the sandbox.' }),
            leaderAlive: z.boolean().meta({ description: 'False: the command ended, and children of it live on.' }),
            liveProcesses: byteCount.meta({ description: 'The command and all that it has started, that live.' }),
            end: z.strictObject(end).nullable().meta({ description: 'How the command ended; null while it runs.' }),
            stdoutBytes: byteCount.meta({ description: 'Printed since the start.' }),
            stderrBytes: byteCount,
            stdinBytes: byteCount.meta({ description: 'Input taken since the start.' }),
          })
          .meta({ id: 'Process' }),
      )
      .meta({ description: 'Oldest first.' }),
  })
  .meta({ id: 'ProcessList' });

export const listProcessesQuery = z.strictObject({
  ended: queryBoolean.default(false).meta({ description: 'Also the last that have ended, as far as they are kept.' }),
});

export const processParams = z.strictObject({ id: sandboxReference, processId });

const queryOffset = queryInteger(0, Number.MAX_SAFE_INTEGER);

export const attachQuery = z.strictObject({
  stdoutOffset: queryOffset.default(0).meta({ description: 'First byte of stdout to give.' }),
  stderrOffset: queryOffset.default(0).meta({ description: 'First byte of stderr to give.' }),
});

export const writeInputQuery = z.strictObject({
  offset: queryOffset.exactOptional().meta({
    description:
      'Position of the first byte of the body in the input. What was taken before is skipped, so a call can be ' +
      'repeated. Left out: after what was taken so far.',
  }),
  eof: queryBoolean.default(false).meta({
    description: 'The input ends after the body. A terminal is hung up; to type an end of file, send byte 4.',
  }),
});

export const writtenInput = z
  .strictObject({ acceptedBytes: byteCount.meta({ description: 'Input taken since the start of the process.' }) })
  .meta({ id: 'WrittenInput' });

export const resizeBody = z.strictObject(terminalSize).meta({ id: 'ResizeTerminal' });

export const signalBody = z
  .strictObject({
    signal: z.enum(Object.keys(SIGNALS) as [SignalName, ...SignalName[]]),
    target: z
      .enum(['tree', 'leader'])
      .default('tree')
      .meta({
        description:
          'The process and all that it has started, wherever they hide, but for what root in the sandbox has taken out of its ' +
          'cgroup; or the process alone.',
      }),
  })
  .meta({ id: 'SignalProcess' });
