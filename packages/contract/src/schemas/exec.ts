/** Commands in a sandbox: what starts one, the events of its stream, and the processes that are left. */
import { z } from 'zod';
import { MAX_ARGUMENT_LENGTH, MAX_ARGUMENTS, MAX_EXEC_TIMEOUT_MS } from '../limits.ts';
import { SIGNALS, type SignalName } from '../signals.ts';
import { absoluteGuestPath, env, guestUser, processId, sandboxReference, text } from './fields.ts';
import { errorEvent } from './problem.ts';

/** What runs a `command`: these, then the command as one argument. */
export const SHELL_ARGV = ['/bin/bash', '-lc'] as const;

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
          'Counted while the sandbox runs.',
      }),
  })
  .refine(
    (body) => (body.command === undefined) !== (body.argv === undefined),
    'exactly one of command and argv must be given',
  )
  .meta({ id: 'Exec', oneOf: [{ required: ['command'] }, { required: ['argv'] }] });

const outputOf = <S extends 'stdout' | 'stderr'>(stream: S) =>
  z.strictObject({ type: z.literal(stream), data: z.base64().meta({ description: 'Bytes, base64.' }) });

export const execEvent = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('started'), processId, pid: z.number().int().positive() }),
    outputOf('stdout'),
    outputOf('stderr'),
    z.strictObject({
      type: z.literal('exited'),
      exitCode: z.number().int().min(0).max(255).nullable().meta({
        description: 'From wait(2); null when a signal ended the process.',
      }),
      signal: z
        .string()
        .regex(/^SIG[A-Z0-9]+$/)
        .nullable()
        .meta({ description: 'The signal that ended it, e.g. SIGKILL; null when it exited by itself.' }),
      timedOut: z.boolean().meta({ description: 'Whether it was killed because timeoutMs had passed.' }),
    }),
    errorEvent,
  ])
  .meta({ id: 'ExecEvent' });

export const processList = z
  .strictObject({
    processes: z.array(
      z
        .strictObject({
          processId,
          pid: z.number().int().positive().meta({ description: 'As seen in the sandbox.' }),
          argv: z.array(z.string()),
          leaderAlive: z.boolean().meta({ description: 'False: the command ended, and children of it live on.' }),
        })
        .meta({ id: 'Process' }),
    ),
  })
  .meta({ id: 'ProcessList' });

export const processParams = z.strictObject({ id: sandboxReference, processId });

export const signalBody = z
  .strictObject({ signal: z.enum(Object.keys(SIGNALS) as [SignalName, ...SignalName[]]) })
  .meta({ id: 'SignalProcess' });
