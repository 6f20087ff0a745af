/**
 * The sandbox that a build runs in. It is the platform's own: nobody sees or counts it, it is never snapshotted by schedule nor
 * paused, and it is deleted at the end of its build; one whose build died with the process is deleted by the rounds, or by its own
 * expiry.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AppError,
  asAppError,
  type BuildId,
  type BuildState,
  DEFAULT_NETWORK_POLICY,
  type GuestCommand,
  homeOf,
  type NetworkPolicy,
  newId,
  type ProcessEnd,
  type ProjectId,
  parseImageState,
  type SnapshotId,
  type VaultName,
} from '@space/core';
import type { Birth } from './birth.ts';
import type { BuildLog } from './build-log.ts';
import { Lines } from './build-log.ts';
import { COPY_NAME, COPY_SCRIPT } from './copy-script.ts';
import { IMAGE_FOLDER, IMAGE_NAME, IMAGE_RESULT, IMAGE_SCRIPT } from './image-script.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox, RecordedSnapshot } from './records.ts';

const STEP_TIMEOUT_MS = 60 * 60 * 1000;
const READY_TIMEOUT_MS = 10 * 60 * 1000;
const ASK_EVERY_MS = 300;
/** Of one question whether it is ready, so that one that hangs is asked again. */
const ASK_TIMEOUT_MS = 60_000;
/** A program that nothing asks for must live for so long. */
const SETTLE_MS = 1_000;
/** Beyond what any build may take. */
const LIVES_MS = 6 * 60 * 60 * 1000;
const MAX_PASSWD_BYTES = 256 * 1024;
const MAX_RESULT_BYTES = 256 * 1024;

/** The step has failed, and this is what to say of it. */
export class StepError extends Error {
  override readonly name = 'StepError';
}

/** It runs on; one that has put itself into the background has ended well. */
interface StartedProgram {
  /** Throws when it has failed. */
  check(): void;
}

export interface BuildPlace {
  readonly projectId: ProjectId;
  readonly template: string;
  readonly size: RecordedSandbox['size'];
  readonly vault: VaultName;
  readonly network: NetworkPolicy | undefined;
  /** Null: the ready snapshot of the template. */
  readonly from: Pick<RecordedSnapshot, 'id' | 'sandboxId'> | null;
}

export class BuildSandbox {
  readonly #machinery: Machinery;
  readonly #sandbox: RecordedSandbox;
  readonly #signal: AbortSignal;
  readonly #log: BuildLog;

  private constructor(
    machinery: Machinery,
    sandbox: RecordedSandbox,
    { signal, log }: { readonly signal: AbortSignal; readonly log: BuildLog },
  ) {
    this.#machinery = machinery;
    this.#sandbox = sandbox;
    this.#signal = signal;
    this.#log = log;
  }

  static async start(
    machinery: Machinery,
    buildId: BuildId,
    place: BuildPlace,
    use: { readonly signal: AbortSignal; readonly log: BuildLog },
  ): Promise<BuildSandbox> {
    const { from, network, ...rest } = place;
    const birth: Birth = {
      ...rest,
      name: `.build-${buildId.slice(4)}`,
      env: {},
      metadata: {},
      pauseAfterMs: null,
      wakeAt: null,
      expiry: { at: new Date(machinery.ports.clock.now() + LIVES_MS), action: 'delete' },
      snapshotPolicy: { everyMs: 'off', archive: 'off' },
      network: network ?? DEFAULT_NETWORK_POLICY,
      forkedFrom: from === null ? null : { sandboxId: from.sandboxId, snapshotId: from.id },
      arrival: null,
    };
    const [born] = await machinery.nursery.bear([birth], null);
    if (born === undefined) throw new Error('one birth has one result');
    if ('error' in born) throw born.error;
    return new BuildSandbox(machinery, born.sandbox, use);
  }

  /** Throws `StepError` when the command fails. */
  async run(command: string, state: BuildState, step: string): Promise<void> {
    await this.#prepare(state);
    const lines = this.#lines(step);
    const failed = (why: string) => new StepError(`failed to run command '${shortened(command)}': ${why}`);
    await this.#checkUser(state.user, (why) => failed(`command failed: ${why}`));
    const end = await this.#exec({ ...asCommand(command, state), timeoutMs: STEP_TIMEOUT_MS }, lines);
    const why = failureOf(end);
    if (why !== null) throw failed(`${why}${lines.last === '' ? '' : `: ${lines.last}`}`);
  }

  async copy(
    body: AsyncIterable<Uint8Array>,
    {
      from,
      to,
      user,
      mode,
    }: { readonly from: string; readonly to: string; readonly user: string; readonly mode: string },
    state: BuildState,
    step: string,
  ): Promise<void> {
    await this.#prepare(state);
    const failed = (why: string) => new StepError(`failed to copy '${shortened(from)}': ${why}`);
    await this.#checkUser(user, failed);
    const archive = `/var/tmp/files-${newId('process', this.#machinery.ports.chance).slice(4)}.tar`;
    const { node } = this.#machinery.ports;
    await node.writeFile(this.#sandbox.id, { path: archive, user: 'root', mode: 0o600 }, body, this.#signal);
    const target = to.startsWith('/') ? to : `${state.cwd ?? homeOf(state.user)}/${to}`;
    const argv = ['/bin/bash', '-c', COPY_SCRIPT, COPY_NAME, archive, from, target, user, mode];
    const lines = this.#lines(step);
    const end = await this.#exec({ argv, env: {}, user: 'root', cwd: '/', timeoutMs: STEP_TIMEOUT_MS }, lines);
    const why = failureOf(end);
    if (why !== null) throw failed(`${why}${lines.last === '' ? '' : `: ${lines.last}`}`);
  }

  /** Its disk becomes that of an image, from which it boots again. */
  async become(archive: AsyncIterable<Uint8Array>): Promise<BuildState> {
    const { node } = this.#machinery.ports;
    const path = `${IMAGE_FOLDER}/archive.tar`;
    await node.makeDirectory(this.#sandbox.id, { path: IMAGE_FOLDER, user: 'root' });
    await node.writeFile(this.#sandbox.id, { path, user: 'root', mode: 0o600 }, archive, this.#signal);
    const argv = ['/usr/bin/python3', '-I', '-c', IMAGE_SCRIPT, IMAGE_NAME, path];
    const lines = this.#lines('base');
    const end = await this.#exec({ argv, env: {}, user: 'root', cwd: '/', timeoutMs: STEP_TIMEOUT_MS }, lines);
    const why = failureOf(end);
    if (why !== null) throw new StepError(lines.last === '' ? `the image cannot be used: ${why}` : lines.last);
    const state = await this.#imageState();
    await this.#bootAgain();
    return state;
  }

  async #imageState(): Promise<BuildState> {
    const range = { path: IMAGE_RESULT, user: 'root', length: MAX_RESULT_BYTES };
    const { body } = await this.#machinery.ports.node.readFile(this.#sandbox.id, range, this.#signal);
    const state = parseImageState(Buffer.concat(await Array.fromAsync(body)).toString());
    if (state !== undefined) return state;
    throw new StepError('what the image says of its user, directory or environment cannot be used');
  }

  /** From its disk: what was in memory is of the system that was there before. */
  async #bootAgain(): Promise<void> {
    const { driver, effects } = this.#machinery;
    this.#signal.throwIfAborted();
    await driver.perform(this.#sandbox.id, 'pause', effects.pause('files'));
    await driver.perform(this.#sandbox.id, 'resume', effects.resume());
  }

  /** Starts the program that stays, and waits until the template is ready. */
  async finish(
    { start, ready }: { readonly start?: string; readonly ready?: string },
    state: BuildState,
  ): Promise<void> {
    await this.#prepare(state);
    if (start === undefined && ready === undefined) return;
    await this.#checkUser(state.user, (why) => new StepError(`failed to start: ${why}`));
    const program = start === undefined ? null : await this.#startProgram(start, state);
    if (ready !== undefined) await this.#untilReady(ready, state, program);
    else {
      await pause(SETTLE_MS, this.#signal);
      program?.check();
    }
  }

  async #untilReady(ready: string, state: BuildState, program: StartedProgram | null): Promise<void> {
    const { clock } = this.#machinery.ports;
    const deadlineMs = clock.monotonicMs() + READY_TIMEOUT_MS;
    for (;;) {
      const lines = this.#lines('finalize', 'debug');
      const answer = failureOf(await this.#exec({ ...asCommand(ready, state), timeoutMs: ASK_TIMEOUT_MS }, lines));
      if (answer === null) return;
      program?.check();
      if (clock.monotonicMs() > deadlineMs) {
        const why = lines.last === '' ? answer : lines.last;
        throw new StepError(`not ready after ${READY_TIMEOUT_MS / 60_000} minutes: ${why}`);
      }
      await pause(ASK_EVERY_MS, this.#signal);
    }
  }

  /** A point of it as it is now, which outlives it. */
  async keep(): Promise<SnapshotId> {
    const { driver, effects, ports } = this.#machinery;
    const name = `.layer-${newId('snapshot', ports.chance).slice(4)}`;
    this.#signal.throwIfAborted();
    const { result } = await driver.perform(this.#sandbox.id, 'snapshot', effects.snapshot({ name, note: null }));
    if (result === undefined) throw new Error('an operation that takes a point ends with it');
    return result.id;
  }

  async remove(): Promise<void> {
    const { driver, effects } = this.#machinery;
    await driver.perform(this.#sandbox.id, 'delete', effects.delete());
  }

  async #startProgram(start: string, state: BuildState): Promise<StartedProgram> {
    const lines = this.#lines('finalize');
    const started = Promise.withResolvers<void>();
    let failure: unknown = null;
    const running = this.#exec(asCommand(start, state), lines, () => started.resolve()).then(
      (end) => {
        const why = failureOf(end);
        if (why !== null) failure = new StepError(`the start command failed: ${why}`);
      },
      // What became of the sandbox is met by the next question, too.
      (thrown: unknown) => {
        if (thrown instanceof StepError) failure = thrown;
      },
    );
    await Promise.race([started.promise, running]);
    return {
      check: () => {
        if (failure !== null) throw failure;
      },
    };
  }

  /** The directory that it works in is there, and the user's. */
  async #prepare({ cwd, user }: BuildState): Promise<void> {
    if (cwd === null) return;
    const { node } = this.#machinery.ports;
    const isThere = await node.stat(this.#sandbox.id, { path: cwd, user: 'root' }).then(
      () => true,
      () => false,
    );
    if (isThere) return;
    try {
      await node.makeDirectory(this.#sandbox.id, { path: cwd, user: 'root', parents: true });
      await node.setAttributes(this.#sandbox.id, { path: cwd, user: 'root', owner: user });
    } catch (cause) {
      throw new StepError(`the directory '${shortened(cwd)}' cannot be made: ${asAppError(cause).message}`, { cause });
    }
  }

  /** By the guest's own list of them; where there is none, those that every guest has. */
  async #checkUser(user: string, failed: (why: string) => Error): Promise<void> {
    if (user === '' || user === 'user' || user === 'root' || /^[0-9]+$/.test(user)) return;
    if ((await this.#userNames()).includes(user)) return;
    throw failed(`unauthenticated: invalid username: '${user}'`);
  }

  async #userNames(): Promise<readonly string[]> {
    try {
      const range = { path: '/etc/passwd', user: 'root', length: MAX_PASSWD_BYTES };
      const { body } = await this.#machinery.ports.node.readFile(this.#sandbox.id, range, this.#signal);
      const text = Buffer.concat(await Array.fromAsync(body)).toString();
      return text.split('\n').map((line) => line.split(':', 1)[0] ?? '');
    } catch (thrown) {
      if (asAppError(thrown).code === 'file_not_found') return [];
      throw thrown;
    }
  }

  #lines(step: string, level: 'info' | 'debug' = 'info'): Lines {
    return new Lines((stream, line) =>
      this.#log.say(stream === 'stderr' && level === 'info' ? 'warn' : level, line, step),
    );
  }

  async #exec(
    command: Omit<GuestCommand, 'processId'>,
    lines: Lines,
    onStart: () => void = () => undefined,
  ): Promise<ProcessEnd> {
    const { node, chance } = this.#machinery.ports;
    this.#signal.throwIfAborted();
    const processId = newId('process', chance);
    try {
      for await (const event of node.exec(this.#sandbox.id, { ...command, processId }, this.#signal)) {
        if (event.kind === 'started') onStart();
        if (event.kind === 'output') lines.add(event);
        if (event.kind === 'exited') {
          lines.end();
          return event;
        }
      }
    } catch (thrown) {
      this.#signal.throwIfAborted();
      const error = asAppError(thrown);
      if (error.code === 'command_not_started' || error.code === 'bad_request') {
        throw new StepError(`failed to run command: ${error.message}`, { cause: error });
      }
      throw error;
    }
    throw new AppError('agent_lost', 'A command ended without saying how.');
  }
}

function asCommand(command: string, { user, cwd, env }: BuildState): Omit<GuestCommand, 'processId'> {
  return { argv: ['/bin/bash', '-l', '-c', command], user, env, ...(cwd === null ? {} : { cwd }) };
}

/** Null: it ended well. */
function failureOf({ exit, timedOut, oom }: ProcessEnd): string | null {
  if (timedOut) return 'it took too long';
  if (oom) return 'out of memory';
  if ('signal' in exit) return `signal ${exit.signal}`;
  return exit.code === 0 ? null : `exit status ${exit.code}`;
}

function shortened(text: string): string {
  return text.length <= 500 ? text : `${text.slice(0, 500).toWellFormed()}…`;
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
  signal.throwIfAborted();
}
