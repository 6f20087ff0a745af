/** The use-cases on the schedules of a sandbox. */
import type { Caller, Input, Schedule, ScheduleList } from '@space/contract';
import { AppError, newId } from '@space/core';
import { firstTime } from './cron.ts';
import type { LifecycleUseCases } from './lifecycle-use-cases.ts';
import type { ControlPorts } from './ports.ts';
import type { RecordedSchedule, ScheduleChanges } from './schedule-records.ts';
import { viewSchedule } from './views.ts';

const MAX_SCHEDULES = 16;

export class ScheduleUseCases {
  readonly #ports: ControlPorts;
  readonly #sandboxes: LifecycleUseCases;

  constructor(ports: ControlPorts, sandboxes: LifecycleUseCases) {
    this.#ports = ports;
    this.#sandboxes = sandboxes;
  }

  async createSchedule(caller: Caller, input: Input<'createSchedule'>): Promise<Schedule> {
    const { id: sandboxId, projectId } = await this.#sandboxes.find(caller, input.id);
    const { clock, chance, records } = this.#ports;
    const { cron, timeZone, exec = null, catchUp, enabled } = input;
    const now = new Date(clock.now());
    const first = firstTime({ cron, timeZone }, now);
    const schedule: RecordedSchedule = {
      id: newId('schedule', chance),
      projectId,
      sandboxId,
      cron,
      timeZone,
      exec,
      catchUp,
      enabled,
      nextRunAt: enabled ? first : null,
      createdAt: now,
      updatedAt: now,
    };
    await records.schedules.add(schedule, MAX_SCHEDULES);
    return viewSchedule(schedule, []);
  }

  async listSchedules(caller: Caller, input: Input<'listSchedules'>): Promise<ScheduleList> {
    const { id } = await this.#sandboxes.find(caller, input.id);
    const schedules = await this.#ports.records.schedules.list(id);
    const runs = await this.#ports.records.schedules.runsOf(schedules.map((one) => one.id));
    return { schedules: schedules.map((one) => viewSchedule(one, runs)) };
  }

  async getSchedule(caller: Caller, input: Input<'getSchedule'>): Promise<Schedule> {
    return this.#view(await this.#find(caller, input));
  }

  async updateSchedule(caller: Caller, input: Input<'updateSchedule'>): Promise<Schedule> {
    const schedule = await this.#find(caller, input);
    const { id: _, scheduleId, ...asked } = input;
    const { records, clock } = this.#ports;
    const now = new Date(clock.now());
    const after = { ...schedule, ...asked };
    const timesChanged = 'cron' in asked || 'timeZone' in asked || after.enabled !== schedule.enabled;
    const first = timesChanged ? firstTime(after, now) : null;
    const changes: ScheduleChanges = {
      ...asked,
      ...(timesChanged ? { nextRunAt: after.enabled ? first : null } : {}),
    };
    const changed = await records.schedules.update(scheduleId, changes, now);
    if (changed === null) throw unknown(scheduleId);
    return this.#view(changed);
  }

  /** A command that it has started goes on. */
  async deleteSchedule(caller: Caller, input: Input<'deleteSchedule'>): Promise<void> {
    const { id } = await this.#find(caller, input);
    await this.#ports.records.schedules.remove(id);
  }

  async #find(caller: Caller, { id, scheduleId }: Input<'getSchedule'>): Promise<RecordedSchedule> {
    const sandbox = await this.#sandboxes.find(caller, id);
    const schedule = await this.#ports.records.schedules.find(sandbox.id, scheduleId);
    if (schedule === null) throw unknown(scheduleId);
    return schedule;
  }

  async #view(schedule: RecordedSchedule): Promise<Schedule> {
    return viewSchedule(schedule, await this.#ports.records.schedules.runsOf([schedule.id]));
  }
}

function unknown(id: string): AppError {
  return new AppError('not_found', `There is no schedule "${id}".`);
}
