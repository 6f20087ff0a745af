/** templates: those of the installation, and those that are built here. */
import {
  type BuiltTemplate,
  buildTemplate,
  deleteTemplate,
  listBuiltTemplates,
  listTemplates,
  type Template,
  TemplateBuildError,
  type TemplateLogEntry,
} from '@space/sdk';
import { type Cli, verb } from '../cli.ts';
import { CliError, usage } from '../errors.ts';
import { inert } from '../inert.ts';
import { ageText } from '../output.ts';
import { readRecipe, withFiles } from '../recipe-file.ts';
import { defined } from './options.ts';

/** Of what a build that fails has said. */
const LAST_LINES = 15;

export function templates(cli: Cli) {
  const group = verb('templates', 'list what sandboxes can be created from').action(
    cli.run(async ({ out, connection }) => {
      const [all, built] = [await listTemplates(connection), await listBuiltTemplates(connection)];
      out.table(
        [...all, ...built],
        ['NAME', 'SIZE', 'STATE'],
        [...all.map((one) => [one.name, 'any', readyText(one)]), ...built.map(builtRow)],
      );
    }),
  );
  group.addCommand(
    verb('build', 'build a template by a recipe; prints its name')
      .argument('<recipe>', 'a folder with template.json, that file, or `code-interpreter`, which comes along')
      .option('-n, --name <name>', 'its name (default: the one in the recipe)')
      .option('-t, --tag <tag>', 'names the build (again for more; default: default)', (tag, all: string[] = []) => [
        ...all,
        tag,
      ])
      .option('--force', 'use nothing of earlier builds')
      .action(
        cli.run(async (context, { name: given, tag: tags, force }, reference) => {
          const file = await readRecipe(reference);
          const name = given ?? file.name;
          if (name === undefined) throw usage('The recipe has no name.', 'Give one with --name.');
          const recipe = await withFiles(file, context);
          const { out, connection } = context;
          const last: string[] = [];
          const onLog = ({ message }: TemplateLogEntry) => {
            out.note(message);
            last.push(message);
            if (last.length > LAST_LINES) last.shift();
          };
          try {
            const build = await buildTemplate(name, {
              ...connection,
              ...recipe,
              ...defined({ size: file.size, tags, force }),
              onLog,
            });
            out.result(build, () => name);
          } catch (thrown) {
            if (!(thrown instanceof TemplateBuildError)) throw thrown;
            for (const line of last) out.warn(line);
            throw new CliError(
              'build_failed',
              `The build failed at ${thrown.message}`,
              'Correct the step, and build again: what was done before it is kept.',
            );
          }
        }),
      ),
  );
  group.addCommand(
    verb('rm', 'delete templates that were built here; sandboxes made from them keep what they have')
      .alias('delete')
      .argument('<template...>')
      .action(
        cli.run(async ({ out, connection }, _, names) => {
          for (const name of names) {
            await deleteTemplate(name, connection);
            out.item({ name, deleted: true }, () => inert(name));
          }
        }),
      ),
  );
  return group;
}

function builtRow({ name, size, tags, builds }: BuiltTemplate): string[] {
  const [newest] = builds;
  const sizeText = size === null ? '-' : `${size.vcpus} CPU, ${size.memoryMib} MiB`;
  const last = newest === undefined ? 'none' : `last build ${newest.status}, ${ageText(newest.createdAt)} ago`;
  return [name, sizeText, [tags.map(({ tag }) => tag).join(' '), last].filter((text) => text !== '').join('; ')];
}

function readyText({ ready }: Template): string {
  const texts = ready.map(({ size, state, step, progress }) => {
    const text = `${size.vcpus} CPU, ${size.memoryMib} MiB`;
    return state === 'ready' ? text : `${text} (${step}, ${Math.round(progress * 100)} %)`;
  });
  return texts.join('; ') || 'none yet: the first create makes one';
}
