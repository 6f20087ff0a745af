/** Schedules and their runs in memory, for tests. */
import { AppError, type RunId, type SandboxId, type ScheduleId } from '@space/core';
import {
  KEPT_RUNS,
  type RecordedRun,
  type RecordedSchedule,
  type ScheduleChanges,
  type ScheduleRecords,
} from '../src/schedule-records.ts';

export class MemorySchedules implements ScheduleRecords {
  readonly #turn: () => Promise<void>;
  readonly #isLive: (id: SandboxId) => boolean;
  readonly #schedules = new Map<ScheduleId, RecordedSchedule>();
  readonly #runs = new Map<RunId, RecordedRun>();

  constructor(turn: () => Promise<void>, isLive: (id: SandboxId) => boolean) {
    this.#turn = turn;
    this.#isLive = isLive;
  }

  async add(schedule: RecordedSchedule, max: number) {
    await this.#turn();
    const { sandboxId } = schedule;
    if (!this.#isLive(sandboxId)) throw new AppError('not_found', `There is no sandbox "${sandboxId}".`);
    if (this.#of(sandboxId).length >= max) {
      throw new AppError('limit_reached', { detail: `A sandbox may have ${max} schedules.`, facts: { max } });
    }
    this.#schedules.set(schedule.id, schedule);
  }

  async find(sandboxId: SandboxId, id: ScheduleId) {
    await this.#turn();
    return this.#of(sandboxId).find((one) => one.id === id) ?? null;
  }

  async list(sandboxId: SandboxId) {
    await this.#turn();
    return this.#of(sandboxId).sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime() || (a.id < b.id ? -1 : 1));
  }

  async update(id: ScheduleId, changes: ScheduleChanges, updatedAt: Date) {
    await this.#turn();
    const now = this.#schedules.get(id);
    if (now === undefined) return null;
    const after = { ...now, ...changes, updatedAt };
    this.#schedules.set(id, after);
    return after;
  }

  async remove(id: ScheduleId) {
    await this.#turn();
    return this.#drop(id);
  }

  /** In the turn of the delete that it belongs to. */
  dropOf(sandboxId: SandboxId): void {
    for (const { id } of this.#of(sandboxId)) this.#drop(id);
  }

  async due(at: Date, limit: number) {
    await this.#turn();
    const timeOf = ({ nextRunAt }: RecordedSchedule) => nextRunAt?.getTime() ?? Number.POSITIVE_INFINITY;
    const due = [...this.#schedules.values()].filter((one) => timeOf(one) <= at.getTime());
    return due.sort((a, b) => timeOf(a) - timeOf(b)).slice(0, limit);
  }

  async claim(run: RecordedRun, nextRunAt: Date | null) {
    await this.#turn();
    const schedule = this.#schedules.get(run.scheduleId);
    if (schedule?.nextRunAt?.getTime() !== run.dueAt.getTime()) return false;
    this.#schedules.set(schedule.id, { ...schedule, nextRunAt });
    this.#runs.set(run.id, run);
    const ended = this.#newestFirst([schedule.id]).filter(({ endedAt }) => endedAt !== null);
    for (const old of ended.slice(KEPT_RUNS)) this.#runs.delete(old.id);
    return true;
  }

  async inProgress() {
    await this.#turn();
    return [...this.#runs.values()].flatMap((run) => {
      const schedule = this.#schedules.get(run.scheduleId);
      return run.endedAt !== null || schedule === undefined ? [] : [{ run, schedule }];
    });
  }

  async updateRun(id: RunId, changes: Parameters<ScheduleRecords['updateRun']>[1]) {
    await this.#turn();
    const run = this.#runs.get(id);
    if (run === undefined || run.endedAt !== null) return false;
    this.#runs.set(id, { ...run, ...changes });
    return true;
  }

  async runsOf(ids: readonly ScheduleId[]) {
    await this.#turn();
    return this.#newestFirst(ids);
  }

  #of(sandboxId: SandboxId): RecordedSchedule[] {
    return [...this.#schedules.values()].filter((one) => one.sandboxId === sandboxId);
  }

  #newestFirst(ids: readonly ScheduleId[]): RecordedRun[] {
    const own = [...this.#runs.values()].filter(({ scheduleId }) => ids.includes(scheduleId));
    return own.sort((a, b) => b.claimedAt.getTime() - a.claimedAt.getTime() || (a.id < b.id ? 1 : -1));
  }

  #drop(id: ScheduleId): boolean {
    for (const run of this.#runs.values()) if (run.scheduleId === id) this.#runs.delete(run.id);
    return this.#schedules.delete(id);
  }
}
