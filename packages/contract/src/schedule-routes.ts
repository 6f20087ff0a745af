/** The routes of schedules: set times at which a sandbox is woken. */
import { json, noBody, nothing, type Route } from './route.ts';
import * as schemas from './schemas/index.ts';

export const SCHEDULE_ROUTES = {
  createSchedule: {
    method: 'POST',
    path: '/v1/sandboxes/{id}/schedules',
    action: 'schedule.manage',
    summary: 'Wake a sandbox again and again, and run a command in it',
    description:
      'At each time of the cron expression the sandbox is woken, if it is paused, and the command is started, unless the run ' +
      'before has not ended. A run that cannot be begun is tried again for ten minutes. One that crashed is not woken. ' +
      'Schedules end with their sandbox; a fork copies none and a rewind changes none. A sandbox has at most 16.',
    params: schemas.sandboxParams,
    query: nothing,
    body: json(schemas.createScheduleBody),
    response: json(schemas.schedule),
    status: 201,
    errors: ['not_found', 'limit_reached'],
  },
  listSchedules: {
    method: 'GET',
    path: '/v1/sandboxes/{id}/schedules',
    action: 'schedule.read',
    summary: 'List the schedules of a sandbox, with their next time and their last runs',
    params: schemas.sandboxParams,
    query: nothing,
    body: noBody,
    response: json(schemas.scheduleList),
    status: 200,
    errors: ['not_found'],
  },
  getSchedule: {
    method: 'GET',
    path: '/v1/sandboxes/{id}/schedules/{scheduleId}',
    action: 'schedule.read',
    summary: 'Get a schedule, with its next time and its last runs',
    params: schemas.scheduleParams,
    query: nothing,
    body: noBody,
    response: json(schemas.schedule),
    status: 200,
    errors: ['not_found'],
  },
  updateSchedule: {
    method: 'PATCH',
    path: '/v1/sandboxes/{id}/schedules/{scheduleId}',
    action: 'schedule.manage',
    summary: 'Change a schedule',
    description: 'A run that is in progress goes on.',
    params: schemas.scheduleParams,
    query: nothing,
    body: json(schemas.updateScheduleBody),
    response: json(schemas.schedule),
    status: 200,
    errors: ['not_found'],
  },
  deleteSchedule: {
    method: 'DELETE',
    path: '/v1/sandboxes/{id}/schedules/{scheduleId}',
    action: 'schedule.manage',
    summary: 'Delete a schedule',
    description: 'A command that it has started goes on.',
    params: schemas.scheduleParams,
    query: nothing,
    body: noBody,
    response: noBody,
    status: 204,
    errors: ['not_found'],
  },
} as const satisfies Record<string, Route>;
