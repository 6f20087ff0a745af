/** logs: what became of a sandbox, and what its console says. */
import { events, type HappenedEvent, latestEvent, type Operation, operations } from '@space/sdk';
import { type Cli, verb, wholeNumber } from '../cli.ts';
import { inert } from '../inert.ts';
import { resolveSandbox } from '../resolve.ts';

const DEFAULT_COUNT = 50;

export function logs(cli: Cli) {
  return verb('logs', 'what was done to a sandbox, oldest first; or what its console says')
    .argument('<sandbox>')
    .option('-n, --lines <count>', 'so many of the last', wholeNumber, DEFAULT_COUNT)
    .option('-f, --follow', 'go on with what happens to it, until you end it')
    .option('-c, --console', 'the last 64 KiB of the console of its present run, control characters escaped')
    .action(
      cli.run(async (context, { lines, follow, console }, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        const { id } = sandbox;
        if (console) {
          const text = await sandbox.console();
          context.out.result({ text }, () => (text === null ? [] : consoleLines(text, lines)));
          return;
        }
        // First, so that what happens while the past is printed is not missed.
        const after = follow ? await latestEvent(context.connection) : null;
        const past: Operation[] = [];
        for await (const operation of operations({ ...context.connection, sandboxId: id })) {
          if (past.length >= lines) break;
          past.unshift(operation);
        }
        for (const operation of past) context.out.item(operation, () => operationLine(operation));
        if (after === null) return;
        for await (const event of events({ ...context.connection, after })) {
          if (event.sandboxId === id) context.out.item(event, () => eventLine(event));
        }
      }),
    );
}

function consoleLines(text: string, count: number): string[] {
  return text.trimEnd().split(/\r*\n/).slice(-count).map(inert);
}

function operationLine({ kind, state, cause, startedAt, endedAt, error }: Operation): string {
  const took = endedAt === null ? '' : `  ${((Date.parse(endedAt) - Date.parse(startedAt)) / 1000).toFixed(1)} s`;
  const why = cause === null ? '' : `  (${cause})`;
  const failure = error === null ? '' : `  ${error.code}: ${error.title}`;
  return inert(`${startedAt}  ${kind.padEnd(8)}  ${state}${took}${why}${failure}`);
}

function eventLine({ at, kind, operation, state, code, snapshotId }: HappenedEvent): string {
  const facts = [operation, state, code, snapshotId].filter((fact) => fact !== undefined);
  return inert([at, kind, ...facts].join('  '));
}
