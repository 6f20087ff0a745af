/** exec, shell, run: commands in a sandbox, as if they ran here. */
import { constants } from 'node:os';
import { Sandbox, SpaceError } from '@space/sdk';
import { type Cli, duration, keyValue, verb } from '../cli.ts';
import type { Context } from '../context.ts';
import { EXIT, retold, usage } from '../errors.ts';
import { ENDING, type Ending } from '../next-signal.ts';
import { resolveSandbox, resolveSnapshot } from '../resolve.ts';
import { runSession, type SessionOptions } from '../session.ts';
import { commandOf, createOptionsOf, creating, EXEC_HELP, type ExecutingOptions, execOptionsOf } from './options.ts';

/** A login shell of the user. */
const SHELL = ['/bin/bash', '-l'];

interface TerminalOptions extends ExecutingOptions {
  /** `--tty` and `--no-tty`. */
  readonly tty?: boolean | undefined;
  /** `--no-stdin`. */
  readonly stdin: boolean;
}

const COMMAND_HELP = `
One word is a line of shell; several are a program with its arguments. Options come before the sandbox.
The exit code is that of the command, 128 + N when signal N ended it, 124 when its time had passed, 127 when it could
not be started, and 125 when SPACE failed. On a terminal, Enter ~ . leaves a command that does not answer.`;

export function exec(cli: Cli) {
  return verb('exec', 'run a command in a sandbox; it wakes a paused one')
    .argument('<sandbox>')
    .argument('<command...>')
    .option(EXEC_HELP.env, 'added to the environment (again for more)', keyValue)
    .option(EXEC_HELP.cwd, "directory to start in (default: the user's home)")
    .option(EXEC_HELP.user, 'who runs it (default: user)')
    .option(EXEC_HELP.timeout, 'kill it, with all that it started, after e.g. 30s, 10m, 2h', duration)
    .option('--keep-awake', 'the sandbox is not paused as idle while the command lives')
    .option('-t, --tty', 'run it on a terminal (default: when you are on one)')
    .option('-T, --no-tty', 'do not run it on a terminal')
    .option('-N, --no-stdin', 'give it no input')
    .passThroughOptions()
    .addHelpText('after', COMMAND_HELP)
    .action(
      cli.run(async (context, options, reference, [first = '', ...more]) => {
        if (first.startsWith('-') && first !== '--') {
          throw usage(
            `"${first}" stands where the command is to be.`,
            `Options come before the sandbox: space exec ${first} … ${reference} COMMAND.`,
          );
        }
        const words = first === '--' ? more : [first, ...more];
        const sandbox = await resolveSandbox(reference, context);
        return started(words, (command) => runSession(sandbox, command, sessionOptionsOf(options), context));
      }, EXIT.platform),
    );
}

export function shell(cli: Cli) {
  return verb('shell', 'a login shell in a sandbox')
    .argument('<sandbox>')
    .option(EXEC_HELP.env, 'added to the environment (again for more)', keyValue)
    .option(EXEC_HELP.cwd, "directory to start in (default: the user's home)")
    .option(EXEC_HELP.user, 'whose shell (default: user)')
    .addHelpText('after', '\nEnter ~ . leaves a shell that does not answer.')
    .action(
      cli.run(async (context, options, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        return runSession(sandbox, SHELL, sessionOptionsOf({ ...options, stdin: true }), context);
      }, EXIT.platform),
    );
}

export function run(cli: Cli) {
  return creating('run', 'create a sandbox, run a command in it (default: a shell), and delete it')
    .argument('[command...]')
    .option(EXEC_HELP.env, 'environment of the sandbox (again for more)', keyValue)
    .option(EXEC_HELP.cwd, "directory to start in (default: the user's home)")
    .option(EXEC_HELP.user, 'who runs it (default: user)')
    .option(EXEC_HELP.timeout, 'kill it, with all that it started, after e.g. 30s, 10m, 2h', duration)
    .option('-T, --no-tty', 'do not run it on a terminal')
    .option('-N, --no-stdin', 'give it no input')
    .option('-k, --keep', 'do not delete the sandbox; its id goes to stderr')
    .passThroughOptions()
    .addHelpText('after', COMMAND_HELP)
    .action(
      cli.run(async (context, options, words) => {
        const snapshot = options.snapshot === undefined ? undefined : await resolveSnapshot(options.snapshot, context);
        const { env = {}, tty, ...rest } = options;
        const given = { ...context.connection, ...createOptionsOf(rest, snapshot?.id), env };
        await using made = await Made.create(given, options.keep === true, context);
        if (made.unwantedBy !== null) return EXIT.signal + constants.signals[made.unwantedBy];
        const session = { ...rest, ...(tty ? {} : { tty: false }) };
        const how = sessionOptionsOf(session);
        return await started(words.length === 0 ? SHELL : words, (command) =>
          runSession(made.sandbox, command, how, context),
        );
      }, EXIT.platform),
    );
}

/** Names the program that was not found: the guest's error is that of the system, which does not. */
async function started(
  words: readonly string[],
  work: (command: string | readonly string[]) => Promise<number>,
): Promise<number> {
  const command = commandOf(words);
  try {
    return await work(command);
  } catch (thrown) {
    const isMissing = thrown instanceof SpaceError && /^ENOENT: exec\b/.test(thrown.detail);
    if (!isMissing || typeof command === 'string') throw thrown;
    throw retold(thrown, {
      detail: `There is no program "${words[0]}" in the sandbox, or not what it is run by (${thrown.detail}).`,
      nextStep: 'Several words are a program with its arguments; for a line of shell, quote all of it as one.',
    });
  }
}

/** A sandbox that goes when the block ends, also when it is no longer wanted before it is there. */
class Made implements AsyncDisposable {
  readonly sandbox: Sandbox;
  /** The signal that came before it was there. */
  readonly unwantedBy: Ending | null;
  readonly #keep: boolean;
  readonly #context: Context;

  private constructor(sandbox: Sandbox, unwantedBy: Ending | null, keep: boolean, context: Context) {
    this.sandbox = sandbox;
    this.unwantedBy = unwantedBy;
    this.#keep = keep;
    this.#context = context;
  }

  static async create(options: Parameters<typeof Sandbox.create>[0], keep: boolean, context: Context): Promise<Made> {
    const { signals } = context.io;
    let unwantedBy: Ending | null = null;
    const unwant = (name: Ending) => {
      unwantedBy ??= name;
      context.out.note('It is deleted as soon as it is there.');
    };
    for (const name of ENDING) signals.on(name, unwant);
    try {
      context.out.note('Creating a sandbox. The first of a template in a size takes tens of seconds.');
      return new Made(await Sandbox.create(options), unwantedBy, keep, context);
    } finally {
      for (const name of ENDING) signals.off(name, unwant);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#keep && this.unwantedBy === null) this.#context.out.warn(`the sandbox is kept: ${this.sandbox.id}`);
    else await this.sandbox.delete();
  }
}

function sessionOptionsOf(options: TerminalOptions): SessionOptions {
  return { tty: options.tty, stdin: options.stdin, exec: execOptionsOf(options) };
}
