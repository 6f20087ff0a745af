/** snapshot, snapshots, timeline, fork, rewind. */
import { deleteSnapshot, ForkError, listSnapshots, type Sandbox, type Snapshot } from '@space/sdk';
import { type Cli, verb, wholeNumber } from '../cli.ts';
import type { Context } from '../context.ts';
import { ageText } from '../output.ts';
import { resolveSandbox, resolveSnapshot } from '../resolve.ts';
import { defined } from './options.ts';

export function snapshot(cli: Cli) {
  return verb('snapshot', 'take a snapshot of a sandbox, which goes on; prints its id')
    .argument('<sandbox>')
    .option('-n, --name <name>', 'keeps it when the sandbox is deleted; sandboxes can be created from it')
    .option('-m, --note <text>', 'free text')
    .action(
      cli.run(async (context, { name, note }, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        const taken = await sandbox.snapshot(defined({ name, note }));
        context.out.result(taken, () => taken.id);
      }),
    );
}

export function snapshots(cli: Cli) {
  const group = verb('snapshots', 'list named snapshots, which outlive their sandboxes').action(
    cli.run(async ({ out, connection }) => {
      const named = await listSnapshots(connection);
      const rows = named.map((each) => [
        each.id,
        each.name ?? '-',
        each.sandboxId,
        ageText(each.takenAt),
        stateOf(each),
      ]);
      out.table(named, ['ID', 'NAME', 'SANDBOX', 'AGE', 'STATE'], rows);
    }),
  );
  group.addCommand(
    verb('rm', 'delete snapshots; what was started from them is not affected')
      .argument('<snapshot...>')
      .action(
        cli.run(async (context, _, references) => {
          const found: Snapshot[] = [];
          for (const reference of references) found.push(await resolveSnapshot(reference, context));
          for (const { id } of found) {
            await deleteSnapshot(id, context.connection);
            context.out.item({ id, deleted: true }, () => id);
          }
        }),
      ),
  );
  return group;
}

export function timeline(cli: Cli) {
  return verb('timeline', 'list the snapshots of a sandbox, newest first; * is where its present comes from')
    .argument('<sandbox>')
    .action(
      cli.run(async (context, _, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        const { snapshots: points } = await sandbox.timeline();
        const rows = points.map((point) => rowOf(point, sandbox));
        context.out.table(points, ['', 'ID', 'NAME', 'CAUSE', 'AGE', 'PARENT', 'STATE', 'NOTE'], rows);
      }),
    );
}

export function fork(cli: Cli) {
  return verb('fork', 'make running copies of a sandbox, all from one instant; prints their ids')
    .argument('<sandbox>')
    .option('-n, --count <count>', 'how many', wholeNumber, 1)
    .option('--from <snapshot>', 'a past snapshot of it (default: its present)')
    .action(
      cli.run(async (context, { count, from }, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        const point = from === undefined ? undefined : await resolveSnapshot(from, context, sandbox);
        try {
          tellForks(await sandbox.fork(count, defined({ from: point })), context);
        } catch (error) {
          // What was made runs: its ids must not be lost with the error.
          if (error instanceof ForkError) tellForks(error.sandboxes, context);
          throw error;
        }
      }),
    );
}

export function rewind(cli: Cli) {
  return verb('rewind', 'put a sandbox back to a snapshot; prints the one that holds what it was, to undo')
    .argument('<sandbox>')
    .argument('<snapshot>')
    .option('--discard-present', 'keep no snapshot of the present: for a sandbox that cannot be snapshotted any more')
    .action(
      cli.run(async (context, { discardPresent }, reference, to) => {
        const sandbox = await resolveSandbox(reference, context);
        const point = await resolveSnapshot(to, context, sandbox);
        const kept = await sandbox.rewind(point, defined({ keepPresent: discardPresent ? false : undefined }));
        context.out.result({ sandbox: sandbox.fields, kept }, () => kept?.id ?? []);
      }),
    );
}

function tellForks(copies: readonly Sandbox[], { out }: Context): void {
  out.result(
    copies.map(({ fields }) => fields),
    () => copies.map(({ id }) => id),
  );
}

function rowOf(point: Snapshot, { fields }: Sandbox): string[] {
  const { id, name, cause, takenAt, parent, note } = point;
  return [
    fields.head === id ? '*' : '',
    id,
    name ?? '-',
    cause,
    ageText(takenAt),
    parent ?? '-',
    stateOf(point),
    note ?? '',
  ];
}

function stateOf({ state, badReason }: Snapshot): string {
  return badReason === null ? state : `${state}: ${badReason}`;
}
