/** cp: files between here and a sandbox. */
import { SpaceError } from '@space/sdk';
import { type Cli, verb } from '../cli.ts';
import { CopyIn } from '../copy-in.ts';
import { CopyOut } from '../copy-out.ts';
import { retold, usage } from '../errors.ts';
import { Progress } from '../progress.ts';
import { resolveSandbox } from '../resolve.ts';
import { defined } from './options.ts';

const HELP = `
A place in a sandbox is SANDBOX:PATH, with PATH absolute or relative to the user's home; any other is here. \`-\` is
standard input or output. A local name with a colon is written with a slash, as in ./a:b.

  space cp data.csv box:            space cp -r box:project ./project
  tar c . | space cp - box:all.tar  space cp box:out.bin - | sha256sum`;

export function cp(cli: Cli) {
  return verb('cp', 'copy files into a sandbox or out of it, byte for byte')
    .argument('<from>')
    .argument('<to>')
    .option('-r, --recursive', 'directories, with all that is in them')
    .option('-u, --user <user>', 'with whose rights it is done in the sandbox (default: user)')
    .addHelpText('after', HELP)
    .action(
      cli.run(async (context, { recursive, user }, from, to) => {
        const [source, target] = [placeOf(from), placeOf(to)];
        const options = { recursive: recursive === true, as: defined({ user }) };
        const { stderr } = context.io;
        const progress = new Progress(stderr.isTTY === true && !context.out.json ? stderr : null);
        try {
          if (source.sandbox === null && target.sandbox !== null) {
            const sandbox = await resolveSandbox(target.sandbox, context);
            await new CopyIn(sandbox, context, progress, options).copy(source.path, target.path || './');
          } else if (source.sandbox !== null && target.sandbox === null) {
            const sandbox = await resolveSandbox(source.sandbox, context);
            await new CopyOut(sandbox, context, progress, options).copy(source.path, target.path);
          } else
            throw usage(
              'One of the two places must be in a sandbox, and one here.',
              'Write the former as SANDBOX:PATH.',
            );
        } catch (thrown) {
          if (!(thrown instanceof SpaceError) || thrown.code !== 'file_denied' || user === 'root') throw thrown;
          throw retold(thrown, { nextStep: 'Repeat it with -u root: then it is done with the rights of root there.' });
        } finally {
          progress.clear();
        }
        if (context.out.json && target.path !== '-') context.out.result(progress.counts, () => []);
      }),
    );
}

export function placeOf(text: string): { readonly sandbox: string | null; readonly path: string } {
  const match = /^([^/:]+):(.*)$/s.exec(text);
  if (match === null) return { sandbox: null, path: text };
  return { sandbox: match[1] ?? '', path: match[2] ?? '' };
}
