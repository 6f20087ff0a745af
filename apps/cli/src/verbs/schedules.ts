/** schedules: when a sandbox wakes by itself, and what came of it. They are made by the SDK and the API. */
import type { Schedule } from '@space/sdk';
import { type Cli, verb } from '../cli.ts';
import { resolveSandbox } from '../resolve.ts';

export function schedules(cli: Cli) {
  return verb('schedules', 'list when a sandbox is woken by itself, what is run then, and what came of it last')
    .addHelpText(
      'after',
      '\nSchedules are made by the SDK (`sandbox.schedules.create`) and the API (POST /v1/sandboxes/{id}/schedules).',
    )
    .argument('<sandbox>')
    .action(
      cli.run(async (context, _, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        const all = await sandbox.schedules.list();
        context.out.table(all, ['ID', 'WHEN', 'TIME ZONE', 'NEXT', 'LAST', 'COMMAND'], all.map(rowOf));
      }),
    );
}

function rowOf({ id, cron, timeZone, nextRunAt, lastRuns: [last], exec }: Schedule): string[] {
  const outcome = last === undefined ? '-' : `${last.state} ${last.dueAt}`;
  return [id, cron, timeZone, nextRunAt ?? 'disabled', outcome, exec?.command ?? exec?.argv?.join(' ') ?? '-'];
}
