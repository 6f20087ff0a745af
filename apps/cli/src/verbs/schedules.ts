/** schedules: when a sandbox wakes by itself, and what came of it. */
import type { Schedule } from '@space/sdk';
import { type Cli, verb } from '../cli.ts';
import { pickOne, resolveSandbox } from '../resolve.ts';
import { commandOf, defined } from './options.ts';

export function schedules(cli: Cli) {
  const group = verb('schedules', 'list when a sandbox is woken by itself, what is run then, and what came of it last')
    .argument('<sandbox>')
    .enablePositionalOptions()
    .action(
      cli.run(async (context, _, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        const all = await sandbox.schedules.list();
        context.out.table(all, ['ID', 'WHEN', 'TIME ZONE', 'NEXT', 'LAST', 'COMMAND'], all.map(rowOf));
      }),
    );
  for (const make of [create, rm]) group.addCommand(make(cli));
  return group;
}

function create(cli: Cli) {
  return verb('create', 'wake a sandbox again and again, and run a command in it; prints the id of the schedule')
    .argument('<sandbox>')
    .argument(
      '<when>',
      'as cron has it: minute, hour, day, month and day of the week as one word, or @daily and the like',
    )
    .argument('[command...]', 'one word is a line of shell, several are a program (default: it is only woken)')
    .option('--time-zone <zone>', 'like Europe/Berlin (default: UTC)')
    .passThroughOptions()
    .addHelpText('after', "\n  space schedules create --time-zone Europe/Berlin box '0 8 * * MON-FRI' ./report.sh")
    .action(
      cli.run(async (context, { timeZone }, reference, cron, words) => {
        const sandbox = await resolveSandbox(reference, context);
        const exec = words.length === 0 ? undefined : commandOf(words);
        const made = await sandbox.schedules.create({ cron, ...defined({ timeZone, exec }) });
        context.out.result(made, () => made.id);
      }),
    );
}

function rm(cli: Cli) {
  return verb('rm', 'delete schedules of a sandbox; what they have started goes on')
    .alias('delete')
    .argument('<sandbox>')
    .argument('<schedule...>', 'its id, or the beginning of it')
    .action(
      cli.run(async (context, _, reference, references) => {
        const sandbox = await resolveSandbox(reference, context);
        const all = (await sandbox.schedules.list()).map(({ id }) => ({ id, name: null }));
        const found = references.map((each) => pickOne('schedule', each, all, `space schedules ${reference}`));
        for (const { id } of found) {
          await sandbox.schedules.delete(id);
          context.out.item({ id, deleted: true }, () => id);
        }
      }),
    );
}

function rowOf({ id, cron, timeZone, nextRunAt, lastRuns: [last], exec }: Schedule): string[] {
  const outcome = last === undefined ? '-' : `${last.state} ${last.dueAt}`;
  return [id, cron, timeZone, nextRunAt ?? 'disabled', outcome, exec?.command ?? exec?.argv?.join(' ') ?? '-'];
}
