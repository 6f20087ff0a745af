/** One run of the command line, from its words to its exit code. */
import { CommanderError } from '@commander-js/extra-typings';
import type { Command } from 'commander';
import { Cli } from './cli.ts';
import type { Io } from './context.ts';
import { EXIT, errorText, exitCodeOf } from './errors.ts';
import { askedForHelp, unknownVerb } from './help.ts';
import { buildProgram } from './program.ts';

export async function runCli(argv: readonly string[], io: Io): Promise<number> {
  // Whoever reads our output may leave at any time.
  for (const stream of [io.stdout, io.stderr]) stream.on('error', () => undefined);
  const cli = new Cli(io);
  const program = buildProgram(cli);
  onEveryCommand(program as unknown as Command, (command) =>
    command.exitOverride().configureOutput({
      writeOut: (text) => io.stdout.write(text),
      getOutHelpWidth: () => io.stdout.columns ?? 80,
      // Errors are said below, once, in one form.
      writeErr: () => undefined,
    }),
  );
  try {
    if (argv.length === 0) {
      program.outputHelp();
      return EXIT.usage;
    }
    if (argv[0] === 'completion' || argv[0] === 'complete') {
      const { addCompletion, SCRIPTS } = await import('./completion.ts');
      await addCompletion(program as unknown as Command, argv[0] === 'complete' ? (argv.at(-1) ?? '') : null);
      const script = argv[0] === 'completion' && argv.length === 2 ? SCRIPTS.get(argv[1] ?? '') : undefined;
      if (script !== undefined) {
        io.stdout.write(script());
        return 0;
      }
    }
    await program.parseAsync(askedForHelp(program as unknown as Command, argv), { from: 'user' });
    return cli.exitCode;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    const told = unknownVerb(program as unknown as Command, argv, error) ?? error;
    io.stderr.write(errorText(told, cli.json ?? argv.includes('--json')));
    return exitCodeOf(told, cli.failedCode);
  }
}

function onEveryCommand(command: Command, change: (command: Command) => void): void {
  change(command);
  for (const each of command.commands) onEveryCommand(each, change);
}
