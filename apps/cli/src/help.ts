/** What the library for command lines leaves out: help for verbs of verbs, and what there is where a verb is not. */
import type { Command } from 'commander';
import { CommanderError } from 'commander';
import { usage } from './errors.ts';

interface Found {
  readonly command: Command;
  readonly path: readonly string[];
  /** Behind the verbs. */
  readonly rest: readonly string[];
}

/** `help keys create` is `keys create --help`; anything else stays as it is. */
export function askedForHelp(program: Command, argv: readonly string[]): readonly string[] {
  if (argv[0] !== 'help' || argv.length === 1) return argv;
  const { path, rest } = find(program, argv.slice(1));
  if (path.length === 0) throw usage(`There is no verb "${rest[0]}".`, '`space --help` lists the verbs.');
  return [...path, '--help'];
}

/** The better error for a word that is no verb of a group; undefined where it is another one. */
export function unknownVerb(program: Command, argv: readonly string[], error: unknown): Error | undefined {
  if (!(error instanceof CommanderError) || error.code !== 'commander.excessArguments') return undefined;
  const { command, path, rest } = find(program, argv);
  const verbs = command.commands.map((each) => each.name());
  const word = rest.find((each) => !each.startsWith('-'));
  if (verbs.length === 0 || word === undefined) return undefined;
  const group = `space ${path.join(' ')}`;
  if (command.registeredArguments.length === 0) {
    return usage(
      `There is no \`${group} ${word}\`.`,
      `There are: ${verbs.map((name) => `${group} ${name}`).join(', ')}.`,
    );
  }
  return usage(
    'There are too many arguments.',
    `A verb comes first: ${verbs.map((name) => `${group} ${name}`).join(', ')}.`,
  );
}

function find(program: Command, words: readonly string[]): Found {
  let command = program;
  const path: string[] = [];
  for (const word of words) {
    const next = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
    if (next === undefined) break;
    command = next;
    path.push(word);
  }
  return { command, path, rest: words.slice(path.length) };
}
