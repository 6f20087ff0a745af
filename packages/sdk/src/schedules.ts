/** The schedules of a sandbox: it is woken again and again, and a command is run in it. */
import type { Request, Schedule, ScheduleList } from '@space/contract';
import { refuseUnknown } from './options.ts';
import type { CallOptions, Transport } from './transport.ts';

export type { Schedule };
export type ScheduledExec = NonNullable<Request<'createSchedule'>['exec']>;

export interface ScheduleOptions {
  /** Five fields (minute, hour, day of the month, month, day of the week), or @hourly, @daily, @weekly, @monthly, @yearly. */
  readonly cron: string;
  /** IANA time zone, like Europe/Berlin. Default: UTC. */
  readonly timeZone?: string;
  /** What to run; a line of shell, a program with its arguments, or either with more. Default: it is only woken. */
  readonly exec?: string | readonly string[] | ScheduledExec;
  /** Of times that were missed while the platform was down: one is made up for, or none. Default: `once`. */
  readonly catchUp?: 'once' | 'skip';
  /** Default true. */
  readonly enabled?: boolean;
}

/** What is left out stays. `exec: null` leaves only the wake. */
export type ScheduleChanges = Partial<Omit<ScheduleOptions, 'exec'>> & {
  readonly exec?: ScheduleOptions['exec'] | null;
};

export class Schedules {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, sandboxPath: string) {
    this.#transport = transport;
    this.#path = `${sandboxPath}/schedules`;
  }

  /** Errors: `bad_request` for an expression that is none or never comes, `limit_reached` beyond 16. */
  create(options: ScheduleOptions, { signal, ...unknown }: CallOptions = {}): Promise<Schedule> {
    refuseUnknown(unknown);
    const { cron, timeZone, exec, catchUp, enabled, ...rest } = options;
    refuseUnknown(rest);
    const json = { cron, timeZone, exec: exec === undefined ? undefined : execOf(exec), catchUp, enabled };
    return this.#transport.json({ method: 'POST', path: this.#path, json, signal });
  }

  /** Oldest first, each with its next time and its last runs. */
  async list({ signal, ...unknown }: CallOptions = {}): Promise<Schedule[]> {
    refuseUnknown(unknown);
    return (await this.#transport.json<ScheduleList>({ method: 'GET', path: this.#path, signal })).schedules;
  }

  /** Throws `not_found`. */
  get(id: string, { signal, ...unknown }: CallOptions = {}): Promise<Schedule> {
    refuseUnknown(unknown);
    return this.#transport.json({ method: 'GET', path: this.#pathOf(id), signal });
  }

  update(id: string, changes: ScheduleChanges, { signal, ...unknown }: CallOptions = {}): Promise<Schedule> {
    refuseUnknown(unknown);
    const { cron, timeZone, exec, catchUp, enabled, ...rest } = changes;
    refuseUnknown(rest);
    const json = { cron, timeZone, exec: exec == null ? exec : execOf(exec), catchUp, enabled };
    return this.#transport.json({ method: 'PATCH', path: this.#pathOf(id), json, signal });
  }

  /** A command that it has started goes on. */
  async delete(id: string, { signal, ...unknown }: CallOptions = {}): Promise<void> {
    refuseUnknown(unknown);
    await this.#transport.done({ method: 'DELETE', path: this.#pathOf(id), signal });
  }

  #pathOf(id: string): string {
    return `${this.#path}/${encodeURIComponent(id)}`;
  }
}

function execOf(exec: string | readonly string[] | ScheduledExec): ScheduledExec {
  if (typeof exec === 'string') return { command: exec };
  return isArguments(exec) ? { argv: [...exec] } : exec;
}

function isArguments(exec: readonly string[] | ScheduledExec): exec is readonly string[] {
  return Array.isArray(exec);
}
