/**
 * Carries out schedules.
 *
 * ```
 *   due ─► decide ─► claim (a run is recorded, the schedule moves on) ─► wake ─► start its command ─► follow it to its end
 * ```
 *
 * Everything after the claim can be done again by whoever finds the run in progress: a wake of what runs does nothing, and a
 * guest starts a process id once. So a process that dies anywhere leaves a run that the next one takes up. A command that was
 * started is followed as long as its sandbox runs; when that is paused, the command waits, and so does its run.
 */
import {
  AppError,
  asAppError,
  decideFiring,
  type Firing,
  newId,
  type ProcessEvent,
  type RunId,
  type SandboxId,
} from '@space/core';
import { Backoff } from './backoff.ts';
import { nextTime } from './cron.ts';
import { commandOf, startOrAttach } from './guest-use-cases.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import type { RecordedRun, RecordedSchedule, RunInProgress } from './schedule-records.ts';
import { MAX_DUE } from './set-wakes.ts';
import { Slots } from './turns.ts';

/** Each may take memory and a VMM's start. */
const PARALLEL_STARTS = 4;
/** A run that could not be begun for so long has failed. */
const GIVE_UP_MS = 10 * 60_000;

interface UnderWay {
  readonly stop: AbortController;
  readonly ended: Promise<void>;
}

export class ScheduleRuns {
  readonly #machinery: Machinery;
  readonly #backoff: Backoff<RunId>;
  readonly #slots = new Slots(PARALLEL_STARTS);
  readonly #underWay = new Map<RunId, UnderWay>();
  readonly #closing = new AbortController();

  constructor(machinery: Machinery) {
    this.#machinery = machinery;
    this.#backoff = new Backoff(machinery.ports.clock);
  }

  /** What is begun here ends by itself; see `settled`. */
  async round(): Promise<void> {
    const { records, clock, logger } = this.#machinery.ports;
    const known = await records.schedules.inProgress();
    this.#forget(new Set(known.map(({ run }) => run.id)));
    const unfinished = new Set(known.map(({ schedule }) => schedule.id));
    const begun: RunInProgress[] = [];
    for (const schedule of await records.schedules.due(new Date(clock.now()), MAX_DUE)) {
      try {
        const run = await this.#fire(schedule, unfinished.has(schedule.id));
        if (run !== null) begun.push({ run, schedule });
      } catch (err) {
        logger.warn({ scheduleId: schedule.id, err }, 'a schedule could not be begun');
      }
    }
    for (const one of [...known, ...begun]) {
      if (!this.#underWay.has(one.run.id) && this.#backoff.mayTry(one.run.id)) this.#attend(one);
    }
  }

  /** When what is under way has come to rest. */
  async settled(): Promise<void> {
    await Promise.all([...this.#underWay.values()].map(({ ended }) => ended));
  }

  /** Lets go of what is under way; the next process takes it up. */
  close(): void {
    this.#closing.abort();
  }

  /** The run, when there is one to be carried out. */
  async #fire(schedule: RecordedSchedule, hasUnfinishedRun: boolean): Promise<RecordedRun | null> {
    const { records, clock } = this.#machinery.ports;
    const { nextRunAt, catchUp, sandboxId } = schedule;
    if (nextRunAt === null) return null;
    const now = new Date(clock.now());
    const firing = decideFiring({ nextRunAtMs: nextRunAt.getTime(), catchUp, hasUnfinishedRun }, now.getTime());
    if (firing === 'wait') return null;
    const run = this.#newRun(schedule, firing, nextRunAt, now);
    // From now on, and not from the time that was due: of several that were missed one is made up for.
    const claimed = await records.schedules.claim(run, nextTime(schedule, now));
    if (claimed && firing === 'skip') this.#letGoOn(sandboxId);
    return claimed && firing === 'run' ? run : null;
  }

  #newRun({ id: scheduleId, sandboxId, exec }: RecordedSchedule, firing: Firing, dueAt: Date, now: Date): RecordedRun {
    const { chance } = this.#machinery.ports;
    const isRun = firing === 'run';
    return {
      id: newId('run', chance),
      scheduleId,
      sandboxId,
      dueAt,
      claimedAt: now,
      processId: isRun && exec !== null ? newId('process', chance) : null,
      startedAt: null,
      endedAt: isRun ? null : now,
      outcome: isRun ? null : firing === 'miss' ? 'missed' : 'skipped',
      end: null,
      errorCode: null,
    };
  }

  /** The command of the earlier run may wait in a sandbox that was paused. */
  #letGoOn(sandboxId: SandboxId): void {
    const { ports, driver, effects } = this.#machinery;
    driver
      .perform(sandboxId, 'use', effects.resume('schedule'))
      .catch((err: unknown) => ports.logger.warn({ sandboxId, err }, 'a sandbox could not be woken for a schedule'));
  }

  /** Those that are gone, with their schedule or sandbox, are not followed any longer. */
  #forget(known: ReadonlySet<RunId>): void {
    this.#backoff.retain(known);
    for (const [id, { stop }] of this.#underWay) if (!known.has(id)) stop.abort();
  }

  #attend(one: RunInProgress): void {
    const { ports, activity } = this.#machinery;
    const { run } = one;
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, this.#closing.signal]);
    const endUse = activity.begin(run.sandboxId);
    const ended = this.#carryOut(one, signal)
      .catch((err: unknown) => {
        if (signal.aborted) return;
        this.#backoff.failed(run.id);
        ports.logger.warn({ sandboxId: run.sandboxId, runId: run.id, err }, 'a scheduled run is not done yet');
      })
      .finally(() => {
        // A stream that was begun and is no longer read is given up.
        stop.abort();
        endUse();
        this.#underWay.delete(run.id);
      });
    this.#underWay.set(run.id, { stop, ended });
  }

  /** Ends the run, or returns with it still in progress, or throws what may pass. */
  async #carryOut(one: RunInProgress, signal: AbortSignal): Promise<void> {
    const { run } = one;
    if (run.startedAt !== null) return this.#takeUp(run, signal);
    const events = await this.#slots
      .take(() => this.#start(one, signal))
      .catch(async (thrown: unknown) => {
        const { code, kind } = asAppError(thrown);
        const isLate = this.#machinery.ports.clock.now() - run.claimedAt.getTime() > GIVE_UP_MS;
        // A pause may have come between the wake and the start.
        const mayPass = kind.retry !== 'never' || code === 'wrong_state';
        if (signal.aborted || (mayPass && !isLate)) throw thrown;
        await this.#finish(run, { outcome: 'failed', errorCode: code });
        return null;
      });
    if (events !== null) await this.#finishWith(run, events);
  }

  /** Wakes the sandbox, and starts the command, whose events are left to read; null: there is none, and the run has ended. */
  async #start({ run, schedule }: RunInProgress, signal: AbortSignal): Promise<AsyncIterable<ProcessEvent> | null> {
    const { ports, driver, effects } = this.#machinery;
    signal.throwIfAborted();
    const { sandbox } = await driver.perform(run.sandboxId, 'use', effects.resume('schedule'));
    if (sandbox.sealed !== null) await this.#machinery.vaults.ensureOpen(sandbox.vault);
    const { processId } = run;
    if (processId === null || schedule.exec === null) {
      await this.#finish(run, { outcome: 'succeeded' });
      return null;
    }
    const command = commandOf(sandbox, { id: sandbox.id, ...execOf(schedule) }, processId);
    const events = startOrAttach(ports.node, sandbox.id, command, signal);
    await events.next();
    await ports.records.schedules.updateRun(run.id, { startedAt: new Date(ports.clock.now()) });
    return events;
  }

  /** A command that was started: it is where its sandbox is. */
  async #takeUp(run: RecordedRun, signal: AbortSignal): Promise<void> {
    const sandbox = await this.#machinery.ports.records.findSandbox(run.sandboxId);
    if (sandbox === null || sandbox.operation !== null || run.processId === null) return;
    if (sandbox.settled === 'crashed') return this.#finish(run, { outcome: 'interrupted', errorCode: 'vm_lost' });
    if (sandbox.settled !== 'running') return;
    try {
      const at = { processId: run.processId, stdoutOffset: 0, stderrOffset: 0 };
      await this.#finishWith(run, this.#machinery.ports.node.attach(run.sandboxId, at, signal));
    } catch (thrown) {
      // The history of the sandbox has a break, or so much came after it that its end is forgotten.
      if (signal.aborted || !(thrown instanceof AppError) || thrown.code !== 'not_found') throw thrown;
      await this.#finish(run, { outcome: 'interrupted' });
    }
  }

  /** Reads to the end of the command. Its output stays in the sandbox. */
  async #finishWith(run: RecordedRun, events: AsyncIterable<ProcessEvent>): Promise<void> {
    for await (const event of events) {
      if (event.kind !== 'exited') continue;
      const { exit, timedOut, oom } = event;
      const succeeded = 'code' in exit && exit.code === 0;
      await this.#finish(run, { outcome: succeeded ? 'succeeded' : 'failed', end: { exit, timedOut, oom } });
      return;
    }
    throw new AppError('agent_lost', 'The stream of a command ended without its end.');
  }

  async #finish(run: RecordedRun, end: Pick<Partial<RecordedRun>, 'outcome' | 'end' | 'errorCode'>): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    const endedAt = new Date(clock.now());
    await records.schedules.updateRun(run.id, { ...end, endedAt });
    this.#backoff.forget(run.id);
  }
}

function execOf({ exec }: RecordedSchedule) {
  const { argv, ...rest } = exec ?? {};
  return { ...rest, ...(argv === undefined ? {} : { argv: [...argv] }) };
}
