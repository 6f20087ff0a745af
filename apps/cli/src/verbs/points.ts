/** snapshot, snapshots, timeline, fork, rewind. */
import {
  deleteSnapshot,
  ForkError,
  listSnapshots,
  type PastTime,
  type Sandbox,
  type Snapshot,
  type SnapshotChanges,
  SpaceError,
  updateSnapshot,
} from '@space/sdk';
import { type Cli, duration, verb, wholeNumber } from '../cli.ts';
import type { Context } from '../context.ts';
import { retold, usage } from '../errors.ts';
import { inert } from '../inert.ts';
import { ageText, bytesText } from '../output.ts';
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
      .alias('delete')
      .argument('<snapshot...>')
      .action(
        cli.run(async (context, _, references) => {
          for (const { id } of await resolveAll(references, context)) {
            await deleteSnapshot(id, context.connection);
            context.out.item({ id, deleted: true }, () => id);
          }
        }),
      ),
  );
  group.addCommand(pinning(cli, 'pin', 'keep snapshots, whatever the retention says', true));
  group.addCommand(pinning(cli, 'unpin', 'leave snapshots to the retention', false));
  group.addCommand(naming(cli));
  group.addCommand(noting(cli));
  return group;
}

function pinning(cli: Cli, word: string, summary: string, pinned: boolean) {
  return verb(word, summary)
    .argument('<snapshot...>')
    .action(
      cli.run(async (context, _, references) => {
        for (const { id } of await resolveAll(references, context)) {
          const changed = await updateSnapshot(id, { ...context.connection, pinned });
          context.out.item(changed, () => id);
        }
      }),
    );
}

function naming(cli: Cli) {
  return verb('name', 'name a snapshot, which then outlives its sandbox; without a name, take its name away')
    .argument('<snapshot>')
    .argument('[name]')
    .action(cli.run((context, _, reference, name) => change(reference, { name: name ?? null }, context)));
}

function noting(cli: Cli) {
  return verb('note', 'write something beside a snapshot; without a text, take it away')
    .argument('<snapshot>')
    .argument('[text]')
    .action(cli.run((context, _, reference, text) => change(reference, { note: text ?? null }, context)));
}

async function change(reference: string, changes: SnapshotChanges, context: Context): Promise<undefined> {
  const { id } = await resolveSnapshot(reference, context);
  const changed = await updateSnapshot(id, { ...context.connection, ...changes });
  context.out.result(changed, () => id);
}

/** Nothing is done before it is known what every reference means. */
async function resolveAll(references: readonly string[], context: Context): Promise<Snapshot[]> {
  const found: Snapshot[] = [];
  for (const reference of references) found.push(await resolveSnapshot(reference, context));
  return found;
}

export function timeline(cli: Cli) {
  return verb('timeline', 'list the snapshots of a sandbox, newest first; * is where its present comes from')
    .argument('<sandbox>')
    .action(
      cli.run(async (context, _, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        const all = await sandbox.timeline();
        const rows = all.snapshots.map((point) => rowOf(point, sandbox));
        context.out.table(
          all,
          ['', 'ID', 'NAME', 'CAUSE', 'KIND', 'AGE', 'CHANGED', 'PARENT', 'KEPT', 'STATE', 'NOTE'],
          rows,
        );
        if (context.out.json) return;
        for (const { sandboxId, name, from } of all.forks) {
          context.out.line(inert(`${from} was forked to ${name ?? ''} ${sandboxId}`.replace('  ', ' ')));
        }
        const [last] = all.skipped;
        if (last !== undefined) {
          context.out.line(
            inert(`The schedule took none ${all.skipped.length} times, last at ${last.at}: ${last.code}.`),
          );
        }
      }),
    );
}

export function fork(cli: Cli) {
  return verb('fork', 'make running copies of a sandbox, all from one instant; prints their ids')
    .argument('<sandbox>')
    .option('-n, --count <count>', 'how many', wholeNumber, 1)
    .option('--from <snapshot>', 'a past snapshot of it (default: its present)')
    .option('--inherit-secrets', 'they may use the secret bindings that it names')
    .action(
      cli.run(async (context, { count, from, inheritSecrets }, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        const point = from === undefined ? undefined : await resolveSnapshot(from, context, sandbox);
        try {
          tellForks(await sandbox.fork(count, defined({ from: point, inheritSecrets })), context);
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
    .argument('[snapshot]')
    .option('--at <time>', 'in place of a snapshot: how it was then, e.g. 10m (ago), or 2030-01-31T08:00:00Z', pastTime)
    .option('--discard-present', 'keep no snapshot of the present: for a sandbox that cannot be snapshotted any more')
    .action(
      cli.run(async (context, { discardPresent, at }, reference, to) => {
        if ((at === undefined) === (to === undefined)) {
          throw usage('Where to go back to is not clear.', 'Give a snapshot of `space timeline`, or a time with --at.');
        }
        const sandbox = await resolveSandbox(reference, context);
        const point = to === undefined ? at : await resolveSnapshot(to, context, sandbox);
        if (point === undefined) return;
        const how = defined({ keepPresent: discardPresent ? (false as const) : undefined });
        const kept = await sandbox.rewind(point, how).catch(async (thrown: unknown) => {
          throw at === undefined ? thrown : await withOldest(thrown, sandbox);
        });
        context.out.result({ sandbox: sandbox.fields, kept }, () => kept?.id ?? []);
      }),
    );
}

/** Of a time before there was anything: where the timeline begins. */
async function withOldest(thrown: unknown, sandbox: Sandbox): Promise<unknown> {
  if (!(thrown instanceof SpaceError) || thrown.code !== 'not_found') return thrown;
  const oldest = await sandbox.timeline().then(
    ({ snapshots }) => snapshots.at(-1),
    () => undefined,
  );
  const begins = oldest === undefined ? '' : `; the oldest is ${oldest.id}, ${ageText(oldest.takenAt)} ago`;
  return retold(thrown, {
    nextStep: `\`space timeline ${sandbox.name ?? sandbox.id}\` lists what can be gone back to${begins}.`,
  });
}

function tellForks(copies: readonly Sandbox[], { out }: Context): void {
  out.result(
    copies.map(({ fields }) => fields),
    () => copies.map(({ id }) => id),
  );
}

/** A time, or how long ago it was. */
function pastTime(text: string): PastTime {
  if (/^[0-9]+(ms|s|m|h|d)?$/.test(text)) return { agoMs: duration(text) };
  if (Number.isNaN(Date.parse(text)))
    throw usage(`"${text}" is not a time.`, 'Give it like 10m, or 2030-01-31T08:00:00Z.');
  return { at: new Date(text) };
}

function rowOf(point: Snapshot, { fields }: Sandbox): string[] {
  const { id, name, cause, kind, degraded, takenAt, changed, parent, pinned, note } = point;
  const written = changed === null ? '-' : bytesText(changed.diskBytes + changed.memoryBytes);
  const kept = name !== null ? 'by name' : pinned ? 'pinned' : 'by policy';
  return [
    fields.head === id ? '*' : '',
    id,
    name ?? '-',
    cause,
    degraded === null ? kind : `${kind}: ${degraded}`,
    ageText(takenAt),
    written,
    parent ?? '-',
    kept,
    stateOf(point),
    note ?? '',
  ];
}

function stateOf({ state, badReason }: Snapshot): string {
  return badReason === null ? state : `${state}: ${badReason}`;
}
