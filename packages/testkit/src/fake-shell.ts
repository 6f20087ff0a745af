/**
 * The commands of a fake guest: as much of a shell as a test of something else needs, and no more. Lines are commands
 * joined by `;`, `&&`, `||`; words have quotes and `$NAME`; `>`, `>>`, `2>` and `>&2` redirect. It knows echo, printenv,
 * pwd, cat, sleep, true, false, exit, test -e, rm, `sh -c`. What it does not know is not found, as in any shell.
 */
import { AppError, type GuestCommand } from '@space/core';
import type { FakeFiles } from './fake-files.ts';

/** What a program of a fake guest sees of the world. */
export interface FakeProcessWorld {
  readonly command: GuestCommand;
  readonly files: FakeFiles;
  /** What the process is given, until its input ends; of one that takes none, nothing. */
  readonly input: AsyncIterable<Uint8Array>;
  /** Aborts when the process is ended from outside. */
  readonly signal: AbortSignal;
  print(bytes: Uint8Array | string, stream?: 'stdout' | 'stderr'): void;
}

/** A program of a test's own, by its name: its arguments follow; it returns its exit code. */
export type FakeProgram = (world: FakeProcessWorld, args: readonly string[]) => number | Promise<number>;
export type FakePrograms = Readonly<Record<string, FakeProgram>>;

const SHELLS = ['/bin/bash', '/bin/sh', 'bash', 'sh'];

/** Runs a process to its end, and gives its exit code; undefined at once when there is no such program. */
export function runFakeProcess(world: FakeProcessWorld, programs: FakePrograms): Promise<number> | undefined {
  const { argv } = world.command;
  const shell = new Shell(world, programs);
  const line = lineIn(argv);
  // What a script that has a name does is a program's to say.
  const script = argv.indexOf('-c');
  const [name = '', ...args] = argv.slice(script + 2);
  if (script > 0 && Object.hasOwn(programs, name)) return shell.words([name, ...args], world.print);
  if (line !== undefined) return shell.run(line);
  const [program = '', ...rest] = argv;
  const words = [program.replace(/^(\/usr)?\/bin\//, ''), ...rest];
  return shell.knows(words[0] ?? '') ? shell.words(words, world.print) : undefined;
}

/** What a shell was given to run: `sh -c LINE`, `bash -lc LINE`, `bash -l -c LINE`. */
function lineIn([program = '', ...rest]: readonly string[]): string | undefined {
  if (!SHELLS.includes(program)) return undefined;
  const [flag, line] = rest[0] === '-l' ? rest.slice(1) : rest;
  return /^-l?c$/.test(flag ?? '') ? line : undefined;
}

type Print = FakeProcessWorld['print'];
type Builtin = (words: readonly string[], shell: Shell, print: Print) => number | Promise<number>;

class Shell {
  readonly world: FakeProcessWorld;
  readonly programs: FakePrograms;
  exited: number | undefined;
  #last = 0;

  constructor(world: FakeProcessWorld, programs: FakePrograms) {
    this.world = world;
    this.programs = programs;
  }

  knows(name: string): boolean {
    return Object.hasOwn(this.programs, name) || Object.hasOwn(BUILTINS, name);
  }

  async run(line: string): Promise<number> {
    for (const { joint, text } of partsOf(line)) {
      if (this.exited !== undefined) break;
      this.world.signal.throwIfAborted();
      if ((joint === '&&' && this.#last !== 0) || (joint === '||' && this.#last === 0)) continue;
      this.#last = await this.#command(text);
    }
    return this.exited ?? this.#last;
  }

  async words(words: readonly string[], print: Print): Promise<number> {
    const [name = '', ...rest] = words;
    const [program, builtin] = [this.programs[name], BUILTINS[name]];
    if (program !== undefined) return program({ ...this.world, print }, rest);
    if (builtin !== undefined) return builtin(rest, this, print);
    print(`bash: line 1: ${name}: command not found\n`, 'stderr');
    return 127;
  }

  path(path: string): string {
    return path.startsWith('/') ? path : `${this.world.command.cwd ?? '/home/user'}/${path}`;
  }

  variable(name: string): string {
    return name === '?' ? `${this.#last}` : (this.world.command.env[name] ?? DEFAULT_ENV[name] ?? '');
  }

  async #command(text: string): Promise<number> {
    const words = wordsOf(text, (name) => this.variable(name));
    if (words.length === 0) return 0;
    const targets: Partial<Record<'stdout' | 'stderr', { path: string; append: boolean; bytes: Uint8Array[] }>> = {};
    const plain: string[] = [];
    let isToStderr = false;
    for (let at = 0; at < words.length; at += 1) {
      const word = words[at] ?? '';
      if (word === '>&2') isToStderr = true;
      else if (/^[12]?>>?$/.test(word)) {
        const stream = word.startsWith('2') ? 'stderr' : 'stdout';
        targets[stream] = { path: this.path(words[++at] ?? ''), append: word.endsWith('>>'), bytes: [] };
      } else plain.push(word);
    }
    const code = await this.words(plain, (bytes, stream = 'stdout') => {
      const data = typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
      const target = targets[stream];
      if (target !== undefined) target.bytes.push(data);
      else this.world.print(data, isToStderr ? 'stderr' : stream);
    });
    for (const { path, append, bytes } of Object.values(targets)) await this.#store(path, append, bytes);
    return code;
  }

  async #store(path: string, append: boolean, bytes: readonly Uint8Array[]): Promise<void> {
    const { files } = this.world;
    const before = append ? await contentOf(files, path).catch(() => Buffer.alloc(0)) : Buffer.alloc(0);
    await files.writeFile({ path }, chunks([before, ...bytes]));
  }
}

const DEFAULT_ENV: Readonly<Record<string, string>> = { HOME: '/home/user', USER: 'user' };

const BUILTINS: Readonly<Record<string, Builtin>> = {
  true: () => 0,
  false: () => 1,
  pwd: (_, { world }, print) => {
    print(`${world.command.cwd ?? '/home/user'}\n`);
    return 0;
  },
  echo: (words, _, print) => {
    const [first, ...rest] = words;
    print(first === '-n' ? rest.join(' ') : `${words.join(' ')}\n`);
    return 0;
  },
  printenv: ([name = ''], shell, print) => {
    const value = shell.world.command.env[name] ?? DEFAULT_ENV[name];
    if (value === undefined) return 1;
    print(`${value}\n`);
    return 0;
  },
  exit: ([code = '0'], shell) => {
    shell.exited = Number(code) & 0xff;
    return shell.exited;
  },
  sleep: ([seconds = '0'], { world }) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, Number(seconds) * 1000, 0);
      world.signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
    }),
  cat: async (paths, shell, print) => {
    if (paths.length === 0) for await (const bytes of shell.world.input) print(bytes);
    let code = 0;
    for (const path of paths) {
      try {
        print(await contentOf(shell.world.files, shell.path(path)));
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        print(
          `cat: ${path}: ${error.code === 'file_not_found' ? 'No such file or directory' : error.message}\n`,
          'stderr',
        );
        code = 1;
      }
    }
    return code;
  },
  test: async ([flag, path = ''], { world }) => {
    if (flag !== '-e') return 2;
    return world.files.stat({ path }).then(
      () => 0,
      () => 1,
    );
  },
  rm: async (paths, shell) => {
    for (const path of paths) await shell.world.files.removeFile({ path: shell.path(path) });
    return 0;
  },
  sh: ([flag, line = ''], shell) => (flag === '-c' ? new Shell(shell.world, shell.programs).run(line) : 127),
};

async function contentOf(files: FakeFiles, path: string): Promise<Buffer> {
  const { body } = await files.readFile({ path });
  return Buffer.concat(await Array.fromAsync(body));
}

async function* chunks(all: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* all;
}

/** Quoted text, a joint of commands, or anything else. */
const PIECE = /'[^']*'|"(?:\\.|[^"\\])*"|&&|\|\||;|\n|\\.|[^'"\\;&|\n]+|./gs;

function partsOf(line: string): { readonly joint: string; readonly text: string }[] {
  const parts = [{ joint: ';', text: '' }];
  for (const [piece] of line.matchAll(PIECE)) {
    const last = parts.at(-1);
    if (piece === '&&' || piece === '||' || piece === ';' || piece === '\n') parts.push({ joint: piece, text: '' });
    else if (last !== undefined) last.text += piece;
  }
  return parts;
}

const TOKEN = /\s+|'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)|(>&2|[12]?>>?)|\$(\w+|\?)|([^\s'"\\$>]+)/g;

function wordsOf(text: string, variable: (name: string) => string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  const end = () => {
    if (word !== undefined) words.push(word);
    word = undefined;
  };
  for (const [whole, single, double, escaped, redirect, name, plain] of text.matchAll(TOKEN)) {
    if (/^\s/.test(whole)) end();
    else if (redirect !== undefined) {
      // As in a shell, a digit is part of the redirection only where a word would begin.
      end();
      words.push(redirect);
    } else word = (word ?? '') + valueOfToken({ single, double, escaped, name, plain }, variable);
  }
  end();
  return words;
}

function valueOfToken(
  token: Readonly<Record<'single' | 'double' | 'escaped' | 'name' | 'plain', string | undefined>>,
  variable: (name: string) => string,
): string {
  if (token.name !== undefined) return variable(token.name);
  if (token.double === undefined) return token.single ?? token.escaped ?? token.plain ?? '';
  return token.double.replace(/\\(["\\$])|\$(\w+|\?)/g, (_, escaped?: string, name?: string) =>
    escaped === undefined ? variable(name ?? '') : escaped,
  );
}
