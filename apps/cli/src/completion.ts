/**
 * Completion for bash and zsh: `space completion bash` prints a script that asks `space complete -- …` for each Tab. Names
 * of sandboxes, snapshots and templates are asked of the server, which may not be there: then nothing is offered.
 */
import tab from '@bomb.sh/tab/commander';
import { listSnapshots, listTemplates, Sandbox } from '@space/sdk';
import type { Command } from 'commander';
import { HOST_VERBS } from './program.ts';

/** Whoever pressed Tab is waiting. */
const PATIENCE_MS = 1_500;

interface Offer {
  readonly value: string;
  readonly description: string;
}

type Handler = (complete: (value: string, description: string) => void) => void;

/** What the script for bash takes from bash-completion, for machines without that. */
export const BASH_WORDS = `type _get_comp_words_by_ref >/dev/null 2>&1 || _get_comp_words_by_ref() {
    words=("\${COMP_WORDS[@]}"); cword=$COMP_CWORD
    cur=\${words[cword]}; prev=\${words[cword - 1]}
}
`;

/** bash expands what it is offered; ids and names hold nothing else. */
const PLAIN = /^[a-z0-9_-]+:?$/;

/** `withNames`: for a Tab, not for the script. */
export async function addCompletion(program: Command, withNames: boolean): Promise<void> {
  const root = tab(program, { completionCommandName: 'completion' });
  for (const [name, summary] of Object.entries(HOST_VERBS)) root.command(name, summary);
  if (!withNames) return;
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
    from: offer(sandboxes.map(({ value, description }) => ({ value: `${value}:`, description }))),
    to: offer(sandboxes.map(({ value, description }) => ({ value: `${value}:`, description }))),
  };
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
