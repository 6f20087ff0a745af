/** A command of a guest, begun once the guest is not frozen, and given up when its agent does not end it in time. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, type Guest, type GuestCommand, type ProcessEvent } from '@space/core';

/** A snapshot freezes user processes for a moment, and the agent starts none meanwhile: the start is tried again. */
const FROZEN_RETRY_MS = 25;
const FROZEN_LIMIT_MS = 5_000;
/** The agent ends a command at its time limit; when nothing has come from it for this long after that, it is given up. */
const OVERTIME_MS = 20_000;
/** The longest that a timer can wait. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export async function* execute(
  guest: Pick<Guest, 'exec'>,
  command: GuestCommand,
  signal?: AbortSignal,
): AsyncIterable<ProcessEvent> {
  const overtime = new AbortController();
  const limit = AbortSignal.any(signal === undefined ? [overtime.signal] : [signal, overtime.signal]);
  const giveUp = () =>
    overtime.abort(new AppError('agent_lost', 'The agent in the sandbox did not end the command at its time limit.'));
  const endsAt = performance.now() + (command.timeoutMs ?? Number.POSITIVE_INFINITY);
  const frozenUntil = performance.now() + FROZEN_LIMIT_MS;
  let begun = false;
  for (;;) {
    try {
      for await (const event of patiently(guest.exec(command, limit), endsAt, giveUp)) {
        begun = true;
        yield event;
      }
      return;
    } catch (error) {
      if (begun || !isFrozen(error) || performance.now() > frozenUntil) throw error;
      await sleep(FROZEN_RETRY_MS);
    }
  }
}

/** Only the waiting for the agent counts: a reader may take its time, and what was printed may take long to be read. */
async function* patiently<T>(events: AsyncIterable<T>, endsAt: number, giveUp: () => void): AsyncIterable<T> {
  let timer: NodeJS.Timeout | undefined;
  const waitUntil = (time: number) => {
    const leftMs = time - performance.now();
    if (leftMs <= MAX_TIMER_MS) timer = setTimeout(giveUp, leftMs);
    else timer = setTimeout(() => waitUntil(time), MAX_TIMER_MS);
  };
  const wait = () => waitUntil(Math.max(endsAt, performance.now()) + OVERTIME_MS);
  wait();
  try {
    for await (const event of events) {
      clearTimeout(timer);
      yield event;
      wait();
    }
  } finally {
    clearTimeout(timer);
  }
}

function isFrozen(error: unknown): boolean {
  return error instanceof AppError && error.code === 'command_not_started' && error.message === 'frozen';
}
