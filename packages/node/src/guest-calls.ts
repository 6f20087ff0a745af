/** Calls that go through a running life to its agent. An error of the channel is explained by what became of the VM. */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AppError,
  type Guest,
  type GuestCommand,
  type NodeFiles,
  type NodePort,
  type PortConnection,
  type ProcessEvent,
  type SandboxId,
} from '@space/core';
import type { Life } from './life.ts';

type ProcessCalls = 'exec' | 'attach' | 'writeInput' | 'resizeTerminal' | 'signalProcess' | 'processes' | 'openPort';
type GuestCalls = Pick<NodePort, ProcessCalls> & NodeFiles;

/** A snapshot freezes user processes for a moment, and the agent starts none meanwhile: the start is tried again. */
const FROZEN_RETRY_MS = 25;
const FROZEN_LIMIT_MS = 5_000;
/** The agent ends a command at its time limit; when it has not done so after this long, it is given up. */
const OVERTIME_MS = 20_000;
/** The longest that a timer can wait. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export function guestCalls(lifeOf: (sandboxId: SandboxId) => Life): GuestCalls {
  async function call<T>(sandboxId: SandboxId, action: (guest: Guest) => Promise<T>): Promise<T> {
    const life = lifeOf(sandboxId);
    try {
      return await action(await life.guest());
    } catch (error) {
      throw await life.explain(error);
    }
  }

  async function* stream<T>(sandboxId: SandboxId, open: (guest: Guest) => AsyncIterable<T>): AsyncIterable<T> {
    const life = lifeOf(sandboxId);
    try {
      yield* open(await life.guest());
    } catch (error) {
      throw await life.explain(error);
    }
  }

  async function* explained<T>(life: Life, body: AsyncIterable<T>): AsyncIterable<T> {
    try {
      yield* body;
    } catch (error) {
      throw await life.explain(error);
    }
  }

  async function openPort(sandboxId: SandboxId, port: number, signal?: AbortSignal): Promise<PortConnection> {
    const life = lifeOf(sandboxId);
    try {
      const connection = await (await life.guest()).openPort(port, signal);
      return {
        output: explained(life, connection.output),
        write: (bytes) => connection.write(bytes).catch(async (error) => Promise.reject(await life.explain(error))),
        end: () => connection.end(),
        reset: () => connection.reset(),
        closed: connection.closed,
      };
    } catch (error) {
      throw await life.explain(error);
    }
  }

  return {
    openPort,
    exec: (sandboxId, command, signal) => stream(sandboxId, (guest) => execute(guest, command, signal)),
    attach: (sandboxId, at, signal) => stream(sandboxId, (guest) => guest.attach(at, signal)),
    writeInput: (sandboxId, input) => call(sandboxId, (guest) => guest.writeInput(input)),
    resizeTerminal: (sandboxId, processId, size) => call(sandboxId, (guest) => guest.resizeTerminal(processId, size)),
    signalProcess: (sandboxId, processId, signal, target) =>
      call(sandboxId, (guest) => guest.signalProcess(processId, signal, target)),
    processes: (sandboxId, options) => call(sandboxId, (guest) => guest.processes(options)),
    async readFile(sandboxId, file, signal) {
      const { status, body } = await call(sandboxId, (guest) => guest.readFile(file, signal));
      return { status, body: explained(lifeOf(sandboxId), body) };
    },
    writeFile: (sandboxId, file, body, signal) => call(sandboxId, (guest) => guest.writeFile(file, body, signal)),
    stat: (sandboxId, file) => call(sandboxId, (guest) => guest.stat(file)),
    list: (sandboxId, directory) => stream(sandboxId, (guest) => guest.list(directory)),
    makeDirectory: (sandboxId, directory) => call(sandboxId, (guest) => guest.makeDirectory(directory)),
    moveFile: (sandboxId, move) => call(sandboxId, (guest) => guest.moveFile(move)),
    removeFile: (sandboxId, file, signal) => call(sandboxId, (guest) => guest.removeFile(file, signal)),
    setAttributes: (sandboxId, attributes) => call(sandboxId, (guest) => guest.setAttributes(attributes)),
    makeSymlink: (sandboxId, link) => call(sandboxId, (guest) => guest.makeSymlink(link)),
    xattrs: (sandboxId, file) => call(sandboxId, (guest) => guest.xattrs(file)),
    xattr: (sandboxId, attribute) => call(sandboxId, (guest) => guest.xattr(attribute)),
    setXattr: (sandboxId, attribute, value) => call(sandboxId, (guest) => guest.setXattr(attribute, value)),
    removeXattr: (sandboxId, attribute) => call(sandboxId, (guest) => guest.removeXattr(attribute)),
    watch: (sandboxId, directory, signal) => stream(sandboxId, (guest) => guest.watch(directory, signal)),
  };
}

async function* execute(guest: Guest, command: GuestCommand, signal?: AbortSignal): AsyncIterable<ProcessEvent> {
  const overtime = new AbortController();
  const limit = AbortSignal.any(signal === undefined ? [overtime.signal] : [signal, overtime.signal]);
  const giveUp = () =>
    overtime.abort(new AppError('agent_lost', 'The agent in the sandbox did not end the command at its time limit.'));
  const timer =
    command.timeoutMs === undefined
      ? undefined
      : setTimeout(giveUp, Math.min(command.timeoutMs + OVERTIME_MS, MAX_TIMER_MS));
  const frozenUntil = performance.now() + FROZEN_LIMIT_MS;
  let begun = false;
  try {
    for (;;) {
      try {
        for await (const event of guest.exec(command, limit)) {
          begun = true;
          yield event;
        }
        return;
      } catch (error) {
        if (begun || !isFrozen(error) || performance.now() > frozenUntil) throw error;
        await sleep(FROZEN_RETRY_MS);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

function isFrozen(error: unknown): boolean {
  return error instanceof AppError && error.code === 'command_not_started' && error.message === 'frozen';
}
