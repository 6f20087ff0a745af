/** What must be seen when a case was tried. A verdict is what was seen instead, for people; null: all is as it must be. */
import type { Answer } from './guest/tries.ts';
import type { Heard } from './places.ts';

export interface Seen {
  readonly answers: readonly Answer[];
  /** Null: the hosts are not ours. */
  readonly heard: Heard | null;
}

export type Verdict = (seen: Seen) => string | null;

/** By which the gateway says that an answer is its own. */
const BY_GATEWAY = /^x-space-egress: /im;

export function all(...verdicts: readonly Verdict[]): Verdict {
  return (seen) => verdicts.map((verdict) => verdict(seen)).find((told) => told !== null) ?? null;
}

/** Each was refused, and no host heard a byte of it. The way to a host that rules allow may have been opened. */
export const refused: Verdict = all((seen) => firstOf(seen.answers, notRefused), hearsNothing);

/** Each was refused before anything was done for it: no connection, and no question for a name. */
export const refusedUnseen: Verdict = all(refused, reachesNobody);

/** The last answer is a refusal of the gateway; what stood before it may have been answered by the host. */
export const endsRefused: Verdict = ({ answers }) => {
  const said = answers.at(-1)?.said ?? '';
  const last = said.slice(Math.max(0, said.lastIndexOf('HTTP/1.1 ')));
  return /^HTTP\/1\.1 4\d\d /.test(last) && BY_GATEWAY.test(last) ? null : `the last answer was ${shown(said)}`;
};

function hearsNothing({ heard }: Seen): string | null {
  return heard !== null && heard.text !== '' ? `a host heard ${shown(heard.text)}` : null;
}

export function reachesNobody({ heard }: Seen): string | null {
  if (heard === null) return null;
  if (heard.connections > 0) return `${heard.connections} connections came to a host`;
  return heard.names.length > 0 ? `the name server was asked for ${[...new Set(heard.names)].join(', ')}` : null;
}

/** The hosts never heard it. */
export function neverHears(what: RegExp): Verdict {
  return ({ heard }) => (heard !== null && what.test(heard.text) ? `a host heard ${shown(heard.text)}` : null);
}

/** Each was answered, by its host and not by the gateway; one of ours said `text`. */
export function arrives(text = 'well'): Verdict {
  return ({ answers, heard }) =>
    firstOf(answers, ({ said, error }) => {
      if (BY_GATEWAY.test(said) || !/^HTTP\/1\.1 \d/.test(said)) return `the answer was ${error ?? shown(said)}`;
      return heard !== null && !said.includes(text) ? `the answer was ${shown(said)}` : null;
    });
}

/** The last said that, in whatever protocol. */
export function says(text: string): Verdict {
  return ({ answers }) => {
    const { said = '', error = null } = answers.at(-1) ?? {};
    return said.includes(text) ? null : `the answer was ${error ?? shown(said)}`;
  };
}

/** Each failed by one of these errors, at once. */
export function failsAtOnce(...errors: readonly string[]): Verdict {
  return ({ answers }) =>
    firstOf(answers, ({ error, said, seconds }) => {
      if (error === null || !errors.includes(error)) return `it came to ${error ?? shown(said)}`;
      return seconds > 5 ? `it took ${seconds} s to fail` : null;
    });
}

function notRefused({ error, said }: Answer): string | null {
  if (error === 'timeout') return 'there was no answer, and no refusal';
  if (said === '') return null;
  return /^HTTP\/1\.1 4\d\d /.test(said) && BY_GATEWAY.test(said) ? null : `the answer was ${shown(said)}`;
}

function firstOf(answers: readonly Answer[], tell: (answer: Answer) => string | null): string | null {
  return answers.map(tell).find((told) => told !== null) ?? null;
}

export function shown(text: string): string {
  return text === '' ? 'nothing' : JSON.stringify(text.slice(0, 200));
}
