/**
 * Completion for bash and zsh: `space completion bash` prints a script that asks `space complete -- …` for each Tab. Names
 * of sandboxes, snapshots and templates are asked of the server, which may not be there: then nothing is offered.
 */
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { script } from '@bomb.sh/tab';
import tab from '@bomb.sh/tab/commander';
import { listSnapshots, listTemplates, Sandbox } from '@space/sdk';
import type { Command } from 'commander';
import { HOST_VERBS } from './program.ts';
import { PRESETS } from './verbs/network.ts';

/** Whoever pressed Tab is waiting. */
const PATIENCE_MS = 1_500;

interface Offer {
  readonly value: string;
  readonly description: string;
}

type Handler = (complete: (value: string, description: string) => void) => void;

/** What the script for bash takes from bash-completion, for machines without that. */
const BASH_WORDS = `type _get_comp_words_by_ref >/dev/null 2>&1 || _get_comp_words_by_ref() {
    words=("\${COMP_WORDS[@]}"); cword=$COMP_CWORD
    cur=\${words[cword]}; prev=\${words[cword - 1]}
}
`;

/** What was typed, as the script has it. */
const TYPED = `\${words[@]:1}`;

/**
 * The library's script, made fit for being sourced again, by the file of every shell and by hand (it declares constants
 * readonly), and for words that hold what a shell would carry out, which Tab must not do (it evaluates them unquoted).
 */
function bashScript(): string {
  const made = libraryScript('bash')
    .replace(/^readonly /gm, '')
    .replace(TYPED, `$(printf '%q ' "${TYPED}")`);
  return `${BASH_WORDS}${made}\n`;
}

/** A place (`box:`, `folder/`) goes on behind the cursor. */
const ZSH_PLACES = `[[ "\${completions[*]}" != *('\\:'|/):* ]] || noSpace="-S ''"`;

/**
 * The same for zsh: what stands before a `=` would be evaluated, and a colon in what is offered (`box:`) be taken for the
 * end of it.
 */
function zshScript(): string {
  const made = libraryScript('zsh')
    .replace(`flagPrefix="-P \${BASH_REMATCH}"`, "compset -P '*='")
    .replace(`\${comp//:/\\:}`, `\${comp//:/\\\\:}`)
    .replace('__space_debug "Calling _describe"', ZSH_PLACES);
  return `${made}\n`;
}

/** By the name of the shell. */
export const SCRIPTS: ReadonlyMap<string, () => string> = new Map([
  ['bash', bashScript],
  ['zsh', zshScript],
]);

/** It prints them only. */
function libraryScript(shell: 'bash' | 'zsh'): string {
  const { log } = console;
  const lines: string[] = [];
  console.log = (text: string) => lines.push(text);
  try {
    script(shell, 'space', 'space');
  } finally {
    console.log = log;
  }
  return lines.join('\n');
}

/** bash expands what it is offered; ids and names hold nothing else. */
const PLAIN = /^[a-z0-9_-]+:?$/;
/** Of local files; others are not offered. */
const PLAIN_PATH = /^[A-Za-z0-9._/+@%=~-]+$/;
const MAX_FILES = 500;

/** `word`: what stands before the cursor at a Tab; null for the script. */
export async function addCompletion(program: Command, word: string | null): Promise<void> {
  const root = tab(program, { completionCommandName: 'completion' });
  for (const [name, summary] of Object.entries(HOST_VERBS)) root.command(name, summary);
  if (word === null) return;
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const [sandboxes, snapshots, templates] = await Promise.all([
    offers(Sandbox.list({ signal }), ({ id, name, status }) => ({ value: name ?? id, description: status })),
    offers(listSnapshots({ signal }), ({ id, name, takenAt }) => ({ value: name ?? id, description: takenAt })),
    offers(listTemplates({ signal }), ({ name }) => ({ value: name, description: 'template' })),
  ]);
  const handlers: Readonly<Record<string, Handler>> = {
    sandbox: offer(sandboxes),
    snapshot: offer(snapshots),
    template: offer(templates),
    network: offer(PRESETS.map((value) => ({ value, description: 'preset' }))),
  };
  const inSandboxes = offer(sandboxes.map(({ value, description }) => ({ value: `${value}:`, description })));
  const place: Handler = (complete) => {
    inSandboxes(complete);
    for (const path of localPaths(word)) complete(path, 'here');
  };
  const copy = root.commands.get('cp');
  for (const name of ['from', 'to']) copy?.argument(name, place, false);
  for (const command of root.commands.values()) {
    for (const [name, argument] of command.arguments) {
      const handler = handlers[name];
      if (handler !== undefined) command.argument(name, handler, argument.variadic);
    }
    for (const [name, option] of command.options) {
      const handler = handlers[name];
      if (handler !== undefined) command.option(name, option.description, handler, option.alias);
    }
  }
}

async function offers<T>(answer: Promise<readonly T[]>, toOffer: (item: T) => Offer): Promise<Offer[]> {
  return answer.then(
    (items) => items.map(toOffer),
    () => [],
  );
}

function offer(all: readonly Offer[]): Handler {
  return (complete) => {
    for (const { value, description } of all) if (PLAIN.test(value)) complete(value, description);
  };
}

/** What could follow in its folder; none where that cannot be read. */
function localPaths(word: string): string[] {
  const folder = word.endsWith('/') ? word : word.includes('/') ? `${dirname(word)}/` : '';
  try {
    return readdirSync(folder === '' ? '.' : folder, { withFileTypes: true })
      .map((entry) => `${folder === '' ? '' : join(folder, '/')}${entry.name}${entry.isDirectory() ? '/' : ''}`)
      .filter((path) => path.startsWith(word) && PLAIN_PATH.test(path))
      .slice(0, MAX_FILES);
  } catch {
    return [];
  }
}
