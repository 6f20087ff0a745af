/** Schedules: when a sandbox is woken again and again, what is then run in it, and what came of it. */
import { CATCH_UPS } from '@space/core';
import { z } from 'zod';
import { exactlyOneCommand, execBody } from './exec.ts';
import { processId, runId, sandboxId, sandboxReference, scheduleId, timestamp } from './fields.ts';
import { failure } from './problem.ts';

const cron = z
  .string()
  .max(100)
  .regex(
    /^(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|[0-9A-Za-z*,/#?+-]+( [0-9A-Za-z*,/#?+-]+){4})$/,
    'must be five fields (minute hour day month weekday), or a name like @daily',
  )
  .meta({
    description:
      'Five fields: minute, hour, day of the month, month, day of the week; or @hourly, @daily, @weekly, @monthly, @yearly. ' +
      'A time of day that a change of the clocks leaves out comes right after the gap, one that comes twice is met once; ' +
      'an interval (`*/15 * * * *`) goes on through both.',
  });

const timeZone = z
  .string()
  .max(64)
  .regex(/^[A-Za-z][A-Za-z0-9_+/-]*$/, 'must be an IANA time zone like Europe/Berlin')
  .meta({ description: 'IANA time zone, like Europe/Berlin.' });

const { command, argv, cwd, user, timeoutMs } = execBody.shape;

const scheduledExec = z
  .strictObject({ command, argv, cwd, user, timeoutMs })
  .refine(...exactlyOneCommand)
  .meta({
    id: 'ScheduledExec',
    description: 'A command, as for exec. The sandbox is kept awake until it ends.',
    oneOf: [{ required: ['command'] }, { required: ['argv'] }],
  });

const catchUp = z.enum(CATCH_UPS).meta({
  description:
    'Of times that were missed by more than a minute, while the platform was down: one is made up for (`once`), or none (`skip`).',
});

const exec = scheduledExec.nullable().meta({ description: 'Null: the sandbox is only woken.' });

export const createScheduleBody = z
  .strictObject({
    cron,
    timeZone: timeZone.default('UTC'),
    exec: scheduledExec.exactOptional().meta({ description: 'Left out: the sandbox is only woken.' }),
    catchUp: catchUp.default('once'),
    enabled: z.boolean().default(true),
  })
  .meta({ id: 'CreateSchedule' });

export const updateScheduleBody = z
  .strictObject({
    cron: cron.exactOptional(),
    timeZone: timeZone.exactOptional(),
    exec: exec.exactOptional(),
    catchUp: catchUp.exactOptional(),
    enabled: z.boolean().exactOptional(),
  })
  .meta({ id: 'UpdateSchedule', description: 'What is left out stays.' });

const run = z
  .strictObject({
    id: runId,
    dueAt: timestamp,
    startedAt: timestamp.nullable().meta({ description: 'When its command was started; null: it has not been.' }),
    endedAt: timestamp.nullable(),
    state: z.enum(['running', 'succeeded', 'failed', 'skipped', 'missed', 'interrupted']).meta({
      description:
        '`succeeded`: it was woken, and its command exited with 0. `failed`: the command ended otherwise, or `error` says ' +
        'why it could not be begun. `skipped`: the run before had not ended. `missed`: by `catchUp`. `interrupted`: it was ' +
        'begun, and a rewind or a crash took it away. `running`: also while its sandbox is paused in the middle.',
    }),
    processId: processId.nullable().meta({ description: 'Of its command: attach to it for its output.' }),
    exitCode: z.number().int().min(0).max(255).nullable(),
    signal: z.string().nullable().meta({ description: 'The signal that ended its command.' }),
    timedOut: z.boolean(),
    oom: z.boolean(),
    error: failure.nullable(),
  })
  .meta({ id: 'ScheduleRun' });

export const schedule = z
  .strictObject({
    id: scheduleId,
    sandboxId,
    cron,
    timeZone,
    exec,
    catchUp,
    enabled: z.boolean(),
    nextRunAt: timestamp.nullable().meta({ description: 'Null: it is not enabled.' }),
    createdAt: timestamp,
    updatedAt: timestamp,
    lastRuns: z.array(run).meta({ description: 'The last ten that have ended, and one that has not; newest first.' }),
  })
  .meta({ id: 'Schedule' });

export const scheduleList = z
  .strictObject({ schedules: z.array(schedule).meta({ description: 'Oldest first; a sandbox has at most 16.' }) })
  .meta({ id: 'ScheduleList' });

export const scheduleParams = z.strictObject({ id: sandboxReference, scheduleId });
