/** What turns a command line into a call of a verb: the options that all share, and the context that they make. */
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Context, Io } from './context.ts';
import { EXIT, usage } from './errors.ts';
import { Output } from './output.ts';

interface CommonOptions {
  readonly json?: true | undefined;
  readonly url?: string | undefined;
  readonly project?: string | undefined;
}

/** What a verb does; it may return an exit code. */
type Handler<A extends readonly unknown[], O> = (
  context: Context,
  options: O,
  ...args: A
) => Promise<number | undefined>;

export class Cli {
  readonly io: Io;
  exitCode = 0;
  /** Of a failure that is not the fault of the command line. */
  failedCode: number = EXIT.failed;
  /** Whether JSON was asked for; undefined until the command line was understood. */
  json: boolean | undefined;

  constructor(io: Io) {
    this.io = io;
  }

  /** For `action`: calls the handler with a context, then the options, then the arguments. */
  run<A extends readonly unknown[], O extends CommonOptions>(
    handler: Handler<A, O>,
    failedCode: number = EXIT.failed,
  ): (...given: [...A, O, CommandUnknownOpts]) => Promise<void> {
    return async (...given) => {
      this.failedCode = failedCode;
      const args = given.slice(0, -2) as unknown as A;
      // An option that a verb and its group both have is taken by the group, wherever it stands.
      const options = (given.at(-1) as CommandUnknownOpts).optsWithGlobals() as O;
      this.exitCode = (await handler(this.contextOf(options), options, ...args)) ?? 0;
    };
  }

  contextOf({ json, url, project }: CommonOptions): Context {
    this.json = json === true;
    return {
      io: this.io,
      out: new Output(this.io.stdout, this.io.stderr, json === true),
      connection: {
        ...(url === undefined ? {} : { baseUrl: url }),
        ...(project === undefined ? {} : { project }),
      },
    };
  }
}

/** A verb with the options that every verb takes. */
export function verb(name: string, summary: string) {
  return new Command(name)
    .description(summary)
    .option('--json', 'print JSON, errors too')
    .option('--url <url>', 'the server (else SPACE_URL, else the config file)')
    .option('--project <project>', 'the project to work in (else SPACE_PROJECT)');
}

/** For options that can be given again: `--env A=1 --env B=2`. */
export function keyValue(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw usage(`"${text}" is not of the form NAME=VALUE.`, 'Give it like NAME=VALUE.');
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

export function wholeNumber(text: string): number {
  if (!/^[0-9]{1,12}$/.test(text)) throw usage(`"${text}" is not a whole number.`, 'Give digits only.');
  return Number(text);
}

const UNITS_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** `90` and `90s` are seconds; `500ms`, `10m`, `2h`, `7d`. */
export function duration(text: string): number {
  const match = /^([0-9]{1,9})(ms|s|m|h|d)?$/.exec(text);
  if (match === null) throw usage(`"${text}" is not a time.`, 'Give it like 30s, 10m, 2h or 7d.');
  return Number(match[1]) * UNITS_MS[(match[2] ?? 's') as keyof typeof UNITS_MS];
}
