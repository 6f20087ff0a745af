/** Options that several verbs share. */
import { InvalidArgumentError } from '@commander-js/extra-typings';
import type { CreateOptions, ExpiryChoice, IdlePolicy } from '@space/sdk';
import { duration, keyValue, verb, wholeNumber } from '../cli.ts';
import { usage } from '../errors.ts';
import { type NetworkOptions, networkOf, withNetwork } from './network.ts';

/** `create` and `run`. */
export function creating(name: string, summary: string) {
  const command = verb(name, summary)
    .option('-n, --name <name>', 'its name: a-z, 0-9 and dash, starting with a letter')
    .option('-t, --template <template>', 'template to create it from (default: base)')
    .option('-s, --snapshot <snapshot>', 'named snapshot to create it from')
    .option('--vcpus <count>', 'virtual CPUs', wholeNumber)
    .option('--memory <MiB>', 'memory', wholeNumber)
    .option('--disk <MiB>', 'disk', wholeNumber)
    .option('-l, --label <name=value>', 'a label of your own (again for more)', keyValue)
    .option('--pause-after <time>', 'paused when idle for so long, e.g. 10m; `never`', pauseAfter)
    .option(
      '--expire-after <time>',
      'ended so long after now, whatever goes on in it: paused with a last snapshot',
      duration,
    )
    .option('--expire-by-delete', 'deleted at its expiry, and not paused')
    .option('--secret <binding>', 'a secret binding that it may use (again for more)', again);
  return withNetwork(command);
}

export interface CreatingOptions extends NetworkOptions {
  readonly name?: string | undefined;
  readonly template?: string | undefined;
  readonly vcpus?: number | undefined;
  readonly memory?: number | undefined;
  readonly disk?: number | undefined;
  readonly label?: Record<string, string> | undefined;
  readonly pauseAfter?: IdlePolicy | undefined;
  readonly expireAfter?: number | undefined;
  readonly expireByDelete?: true | undefined;
  readonly secret?: string[] | undefined;
}

export function createOptionsOf(options: CreatingOptions, snapshot: string | undefined): CreateOptions {
  const size = defined({ vcpus: options.vcpus, memoryMib: options.memory, diskMib: options.disk });
  return defined({
    name: options.name,
    template: options.template,
    snapshot,
    size: Object.keys(size).length === 0 ? undefined : size,
    metadata: options.label,
    idle: options.pauseAfter,
    network: networkOf(options),
    expiry: expiryOf(options),
    secrets: options.secret,
  });
}

/** `exec`, `run` and `shell`. */
export const EXEC_HELP = {
  env: '-e, --env <name=value>',
  cwd: '-w, --cwd <dir>',
  user: '-u, --user <user>',
  timeout: '--timeout <time>',
} as const;

export interface ExecutingOptions {
  readonly env?: Record<string, string> | undefined;
  readonly cwd?: string | undefined;
  readonly user?: string | undefined;
  readonly timeout?: number | undefined;
  readonly keepAwake?: true | undefined;
}

export function execOptionsOf({ env, cwd, user, timeout, keepAwake }: ExecutingOptions) {
  return defined({ env, cwd, user, timeoutMs: timeout, keepAwake });
}

/** One argument is a line of shell, several are a program with its arguments, as in the SDK. */
export function commandOf(words: readonly string[]): string | readonly string[] {
  const [only] = words;
  if (only === undefined || only === '') throw usage('There is no command.', 'Give one, or use `space shell`.');
  return words.length === 1 ? only : words;
}

/** The same without what is undefined, which the SDK does not take for left out. */
export function defined<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

function expiryOf({ expireAfter, expireByDelete }: CreatingOptions): ExpiryChoice | undefined {
  if (expireAfter !== undefined) {
    return { at: new Date(Date.now() + expireAfter), action: expireByDelete === true ? 'delete' : 'pause' };
  }
  if (expireByDelete === true) throw usage('--expire-by-delete needs --expire-after.', 'Say after what time, e.g. 1h.');
  return undefined;
}

function pauseAfter(text: string): IdlePolicy {
  if (text === 'never') return { pauseAfterMs: null };
  const pauseAfterMs = duration(text);
  if (pauseAfterMs < 10_000) throw new InvalidArgumentError('The shortest is 10s.');
  return { pauseAfterMs };
}

function again(value: string, before: string[] = []): string[] {
  return [...before, value];
}
