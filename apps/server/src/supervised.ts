/**
 * One process under supervision: started, told to begin, started again when it ends by itself, with pauses that grow while it
 * does not stay up. What it prints on its standard output is passed on line by line; the end of its standard error is kept
 * for the day on which it dies.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { CARRIER_OPTIONS } from '@space/link';
import type { RoleName } from './places.ts';
import type { FromRole, RoleConfig, ToRole } from './role-messages.ts';
import type { User } from './users.ts';

const PROGRAM = join(import.meta.dirname, 'role.ts');
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;
/** One that was ready for so long was well; the next pause is short again. */
const STEADY_MS = 30_000;
/** From the first start of a large node: probes, and taking up every microVM. */
const READY_WITHIN_MS = 300_000;
/** For ending in good order, once what runs was paused: control waits for operations in flight, the node for its microVMs. */
const END_WITHIN_MS = 90_000;
const KEPT_ERROR_BYTES = 4_000;

export type OpenDescriptors = () => Promise<{
  readonly descriptors: readonly number[];
  readonly close: () => void;
}>;

export interface SupervisedOptions {
  readonly name: RoleName;
  readonly user: User;
  /** As it is when a process begins. */
  readonly config: () => RoleConfig;
  /** What a process is given beside its channel, opened anew for each. */
  readonly openDescriptors: OpenDescriptors;
  readonly onMessage: (message: FromRole) => void;
  readonly onEnd: (facts: EndFacts) => void;
}

interface RunEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface EndFacts extends RunEnd {
  readonly role: RoleName;
  readonly pid: number | undefined;
  /** The end of what it said there, or why there was no process. */
  readonly stderr: string;
  /** Until the next one is started. */
  readonly pauseMs: number;
}

interface Run {
  readonly child: ChildProcess;
  readonly ended: Promise<RunEnd>;
  readonly stderr: () => string;
}

export class Supervised {
  readonly #options: SupervisedOptions;
  readonly #stopping = new AbortController();
  #run: Run | null = null;
  #supervision: Promise<void> = Promise.resolve();

  constructor(options: SupervisedOptions) {
    this.#options = options;
  }

  get pid(): number | undefined {
    return this.#run?.child.pid;
  }

  /** The first start: settles when the process is ready, and rejects with its reason when it does not come to that. */
  async start(): Promise<Extract<FromRole, { kind: 'ready' }>> {
    const begun = await this.#begin(true);
    const outcome = await begun.outcome;
    if (outcome.kind !== 'ready') throw new Error(`${outcome.reason}`);
    this.#supervision = this.#supervise(begun.run, performance.now());
    return outcome;
  }

  /** One that is not there now begins with what is so then. */
  tell(message: ToRole): void {
    if (this.#run !== null) send(this.#run.child, message);
  }

  /** Tells it to end, and waits until it has; one that takes too long is killed. It is not started again. */
  async stop(pause: boolean): Promise<void> {
    this.#stopping.abort();
    const run = this.#run;
    if (run === null) return this.#supervision;
    send(run.child, { kind: 'stop', pause });
    let late: NodeJS.Timeout | undefined;
    const limit = () => {
      late = setTimeout(() => run.child.kill('SIGKILL'), END_WITHIN_MS);
    };
    // To pause takes some seconds for each sandbox, and whoever waits can stop waiting.
    if (pause) run.child.on('message', ({ kind }: FromRole) => (kind === 'paused' ? limit() : undefined));
    else limit();
    await run.ended;
    clearTimeout(late);
    await this.#supervision;
  }

  async #supervise(first: Run, readyAt: number): Promise<void> {
    const { signal: stopping } = this.#stopping;
    let run: Run | null = first;
    let since = readyAt;
    let pauseMs = FIRST_PAUSE_MS;
    while (run !== null) {
      const end: RunEnd = await run.ended;
      this.#run = null;
      if (stopping.aborted) return;
      if (performance.now() - since > STEADY_MS) pauseMs = FIRST_PAUSE_MS;
      this.#tell({ ...end, pid: run.child.pid, stderr: run.stderr(), pauseMs });
      for (run = null; run === null; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
        await sleep(pauseMs, undefined, { signal: stopping }).catch(() => undefined);
        if (stopping.aborted) return;
        run = await this.#again(pauseMs);
      }
      since = performance.now();
    }
  }

  /** Starts the next; null when it could not even be spawned. One that does not become ready has ended or is killed. */
  async #again(pauseMs: number): Promise<Run | null> {
    try {
      const { run, outcome } = await this.#begin(false);
      if (this.#stopping.signal.aborted) send(run.child, { kind: 'stop', pause: false });
      if ((await outcome).kind === 'failed') run.child.kill('SIGKILL');
      return run;
    } catch (error) {
      const stderr = error instanceof Error ? error.message : String(error);
      this.#tell({ code: null, signal: null, pid: undefined, stderr, pauseMs });
      return null;
    }
  }

  #tell(facts: Omit<EndFacts, 'role'>): void {
    this.#options.onEnd({ role: this.#options.name, ...facts });
  }

  async #begin(first: boolean) {
    const { name, user, config, openDescriptors } = this.#options;
    const { descriptors, close } = await openDescriptors();
    const env = environmentOf(name, process.env);
    const traced = config().traces === undefined ? [] : ['traced'];
    const options = name === 'control' ? [] : CARRIER_OPTIONS;
    const child = spawn(
      // No core file: keys of vaults are in its memory. What it starts cannot raise a hard limit.
      'prlimit',
      [
        ...['--core=0:0', 'setpriv', '--no-new-privs', '--', process.execPath, ...options],
        ...[PROGRAM, name, `${user.uid}`, `${user.gid}`, ...traced],
      ],
      {
        // A session of its own, so that the terminal's Ctrl-C is for the supervisor alone.
        detached: true,
        env,
        stdio: ['ignore', 'pipe', 'pipe', 'ipc', ...descriptors],
      },
    );
    close();
    const run: Run = { child, ended: endOf(child), stderr: keepEnd(child) };
    this.#run = run;
    passOn(child);
    send(child, { kind: 'begin', config: config(), first });
    return { run, outcome: this.#outcomeOf(run) };
  }

  /** Ready, failed, or gone. */
  #outcomeOf({ child, ended, stderr }: Run): Promise<Extract<FromRole, { kind: 'ready' | 'failed' }>> {
    const { onMessage, name } = this.#options;
    const { promise, resolve } = Promise.withResolvers<Extract<FromRole, { kind: 'ready' | 'failed' }>>();
    const failed = (reason: string) => resolve({ kind: 'failed', reason });
    const late = setTimeout(() => failed(`The ${name} process was not ready in time.`), READY_WITHIN_MS);
    child.on('message', (message: FromRole) => {
      onMessage(message);
      if (message.kind === 'ready' || message.kind === 'failed') resolve(message);
    });
    void ended.then(({ code, signal }) => failed(`The ${name} process ended (${signal ?? code}). ${stderr()}`.trim()));
    return promise.finally(() => clearTimeout(late));
  }
}

function send(child: ChildProcess, message: ToRole): void {
  // The channel may be gone with the process; its end is noticed elsewhere.
  if (child.connected) child.send(message, () => undefined);
}

function endOf(child: ChildProcess): Run['ended'] {
  return new Promise((resolve) => {
    child.once('error', () => resolve({ code: null, signal: null }));
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
}

/** Whole lines, so that those of several processes do not mix. */
function passOn({ stdout }: ChildProcess): void {
  if (stdout === null) return;
  createInterface({ input: stdout }).on('line', (line) => process.stdout.write(`${line}\n`));
}

function keepEnd({ stderr }: ChildProcess): () => string {
  let kept = '';
  stderr?.on('data', (data: Buffer) => {
    kept = (kept + data.toString()).slice(-KEPT_ERROR_BYTES);
  });
  return () => kept.trim();
}

/** Secrets of the environment go to whom they are for: the database's to control, in its configuration; those of archives to the node, those of secrets to the gateway. */
export function environmentOf(role: string, { DATABASE_URL: _, ...env }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const others = [...(role === 'node' ? [] : ['AWS_']), ...(role === 'gateway' ? [] : ['SPACE_SECRET_'])];
  return Object.fromEntries(Object.entries(env).filter(([name]) => !others.some((prefix) => name.startsWith(prefix))));
}
