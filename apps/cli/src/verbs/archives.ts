/** export, import. */
import { Sandbox } from '@space/sdk';
import { type Cli, keyValue, verb } from '../cli.ts';
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
        const exported = await sandbox.export(defined({ snapshot: point, timeline, base, location: to }));
        context.out.result(exported, () => exported.archive);
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
    .option('--boot', 'take its disk alone, and boot it: where its memory does not fit')
    .action(
      cli.run(async (context, { name, env, label, from, boot }, archive) => {
        const options = defined({ name, env, metadata: label, location: from, boot });
        const sandbox = await Sandbox.import(archive, { ...context.connection, ...options });
        context.out.result(sandbox.fields, () => sandbox.id);
      }),
    );
}
