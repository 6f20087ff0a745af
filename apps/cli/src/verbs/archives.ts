/** export, archive, archives, move, import. */
import { deleteArchive, type ExportProgress, type ListedArchive, listArchives, Sandbox } from '@space/sdk';
import { type Cli, duration, keyValue, verb } from '../cli.ts';
import type { Context } from '../context.ts';
import { usage } from '../errors.ts';
import { ageText, bytesText } from '../output.ts';
import { Progress } from '../progress.ts';
import { resolveSandbox, resolveSnapshot } from '../resolve.ts';
import { defined } from './options.ts';

export function exporting(cli: Cli) {
  return verb('export', 'bring a sandbox into an archive, which outlives it; prints the name of the archive')
    .argument('<sandbox>')
    .option('-s, --snapshot <snapshot>', 'one of its snapshots (default: its present)')
    .option('--timeline', 'all of its snapshots up to that one')
    .option('--base <archive>', 'an earlier archive of it, of which nothing is read or sent again')
    .option('--to <place>', 'a place for archives (default: default; `space capabilities` names them)')
    .action(
      cli.run(async (context, { snapshot, timeline, base, to }, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        const point = snapshot === undefined ? undefined : await resolveSnapshot(snapshot, context, sandbox);
        const options = defined({ snapshot: point, timeline, base, location: to });
        const exported = await shownOnTerminal(context, (onProgress) =>
          sandbox.export({ ...options, ...defined({ onProgress }) }),
        );
        context.out.result(exported, () => exported.archive);
      }),
    );
}

/** `onProgress` is undefined where nobody looks. */
async function shownOnTerminal<T>(
  { io: { stderr }, out }: Context,
  work: (onProgress: ((progress: ExportProgress) => void) | undefined) => Promise<T>,
): Promise<T> {
  if (stderr.isTTY !== true || out.json) return work(undefined);
  const line = new Progress(stderr);
  try {
    return await work((progress) => line.tell(progressText(progress)));
  } finally {
    line.clear();
  }
}

function progressText({ points, donePoints, progress, sentBytes }: ExportProgress): string {
  const of = points === 1 ? '' : `, ${donePoints} of ${points} snapshots`;
  return `${Math.floor(100 * progress)} %${of}, ${bytesText(sentBytes)} sent`;
}

export function archive(cli: Cli) {
  return verb('archive', 'bring a sandbox into an archive again and again; says how that goes')
    .argument('<sandbox>')
    .option('--every <time>', 'its newest snapshot, e.g. every 10m (at least 1m)', duration)
    .option('--to <place>', 'a place for archives', 'default')
    .option('--off', 'not any more')
    .action(
      cli.run(async (context, { every, to, off }, reference) => {
        if (every !== undefined && off === true) throw usage('It is either --every or --off.', 'Give one of them.');
        const sandbox = await resolveSandbox(reference, context);
        if (every !== undefined) await sandbox.update({ snapshots: { archive: { everyMs: every, location: to } } });
        if (off === true) await sandbox.update({ snapshots: { archive: 'off' } });
        const { snapshots, archiving } = sandbox.fields;
        context.out.result({ archive: snapshots.archive, archiving }, () => archivingLines(sandbox.fields));
      }),
    );
}

export function archives(cli: Cli) {
  const group = verb('archives', 'list the archives of the project in a place, newest first')
    .option('--in <place>', 'a place for archives (default: default)')
    .option('--of <sandbox>', 'only those of this sandbox; of one that is deleted, its id')
    .action(
      cli.run(async (context, { in: location, of }) => {
        const sandbox = of === undefined || of.startsWith('sbx_') ? of : (await resolveSandbox(of, context)).id;
        const all = await listArchives({ ...context.connection, ...defined({ location, sandbox }) });
        context.out.table(all, ['ARCHIVE', 'OF', 'AGE', 'SNAPSHOTS', 'STATE'], all.map(archiveRow));
      }),
    );
  group.addCommand(
    verb('delete', 'delete an archive; what no other one holds of it is removed from the storage after that')
      .alias('rm')
      .argument('<archive>')
      .option('--from <place>', 'a place for archives (default: default)')
      .action(
        cli.run(async ({ out, connection }, { from }, archive) => {
          await deleteArchive(archive, { ...connection, ...defined({ location: from }) });
          out.result({ archive, deleted: true }, () => archive);
        }),
      ),
  );
  return group;
}

function archiveRow({ archive, sandboxId, madeAt, points, isMove, fault }: ListedArchive): string[] {
  const state = fault ?? (isMove ? 'a move' : 'good');
  return [archive, sandboxId, madeAt === null ? '-' : ageText(madeAt), fault === null ? `${points}` : '-', state];
}

export function archivingLines({ snapshots: { archive }, archiving }: Sandbox['fields']): string[] {
  const isOn = archive !== null && archive !== 'off';
  const asked = isOn
    ? `every ${archive.everyMs / 1000} s, to ${archive.location}`
    : (archive ?? 'as its project has it');
  const last = archiving?.last ?? null;
  return [
    asked,
    last === null ? 'none was made yet' : `last of ${last.takenAt} (${ageText(last.takenAt)} ago): ${last.archive}`,
    ...(archiving?.failure == null
      ? []
      : [`failed at ${archiving.triedAt}, to be tried again: ${archiving.failure.title}`]),
  ];
}

export function move(cli: Cli) {
  return verb('move', 'hand a sandbox over to whoever imports its archive with --move; prints the name of the archive')
    .argument('<sandbox>')
    .option('--no-timeline', 'its present alone, without its snapshots')
    .option('--base <archive>', 'an earlier archive of it, of which nothing is read or sent again')
    .option('--to <place>', 'a place for archives that both installations have (default: default)')
    .option('--undo', 'take it back, if nobody has taken it up')
    .action(
      cli.run(async (context, { timeline, base, to, undo }, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        if (undo === true) {
          await sandbox.undoMove();
          context.out.result(sandbox.fields, () => `${sandbox.id} is ${sandbox.fields.status} here`);
          return;
        }
        const moved = await sandbox.move(defined({ timeline, base, location: to }));
        context.out.result(moved, () => moved.archive);
      }),
    );
}

export function importing(cli: Cli) {
  return verb('import', 'make a sandbox from an archive; prints its id')
    .argument('<archive>')
    .option('-n, --name <name>', 'its name: a-z, 0-9 and dash, starting with a letter')
    .option('-e, --env <name=value>', 'environment of its commands (again for more)', keyValue)
    .option('-l, --label <name=value>', 'a label of your own (again for more)', keyValue)
    .option('--from <place>', 'where the archive lies (default: default)')
    .option('--move', 'the sandbox itself, from the archive of a move, and not a copy')
    .option('--boot', 'take its disk alone, and boot it: where its memory does not fit')
    .action(
      cli.run(async (context, { name, env, label, from, move, boot }, archive) => {
        const as = move === true ? ('move' as const) : undefined;
        const options = defined({ as, name, env, metadata: label, location: from, boot });
        const sandbox = await Sandbox.import(archive, { ...context.connection, ...options });
        const missing = sandbox.fields.missingSecrets.join(' ');
        if (missing !== '') {
          const then = `space bindings use ${sandbox.id} ${[...sandbox.fields.secrets, missing].join(' ')}`;
          context.out.warn(
            `it named secret bindings that the project is not granted here, and goes without: ${missing}. ` +
              `Have them bound for the project (space bindings set NAME --for PROJECT), then: ${then}`,
          );
        }
        context.out.result(sandbox.fields, () => sandbox.id);
      }),
    );
}
