/** A command with a time limit: when it has passed, the whole process tree is killed, and that is confirmed. */
import type { ExecEvent } from '@space/contract';
import { AppError, type GuestCommand, type NodePort, type ProcessEvent, type SandboxId } from '@space/core';

const SIGKILL = 9;

/** The time limit counts from `started`. Throws what the node throws; `timed_out` when the tree could not be killed. */
export async function* runCommand(
  node: NodePort,
  sandboxId: SandboxId,
  command: GuestCommand,
  timeoutMs: number | undefined,
  signal: AbortSignal,
): AsyncGenerator<ExecEvent, void> {
  const limit = new TimeLimit(() => node.signalTree(sandboxId, command.processId, SIGKILL));
  try {
    for await (const event of node.exec(sandboxId, command, AbortSignal.any([signal, limit.failed]))) {
      if (event.kind === 'started' && timeoutMs !== undefined) limit.start(timeoutMs);
      yield event.kind === 'exited' ? await limit.judge(event) : event;
    }
  } finally {
    limit.stop();
  }
}

class TimeLimit {
  readonly #failure = new AbortController();
  readonly #kill: () => Promise<void>;
  #timer: NodeJS.Timeout | undefined;
  #killed: Promise<void> | null = null;

  constructor(kill: () => Promise<void>) {
    this.#kill = kill;
  }

  /** Aborts, with the error, when the tree could not be killed. */
  get failed(): AbortSignal {
    return this.#failure.signal;
  }

  start(timeoutMs: number): void {
    this.#timer = setTimeout(() => {
      this.#killed = this.#kill().catch((thrown: unknown) => {
        // It ended by itself just now; its exit is on the way.
        if (thrown instanceof AppError && thrown.code === 'not_found') return;
        this.#failure.abort(
          new AppError('timed_out', 'The command did not end in time and could not be killed.', { cause: thrown }),
        );
      });
    }, timeoutMs);
  }

  /** The exit, once the kill (if there was one) is confirmed. A command that exited by itself was in time. */
  async judge(exited: Extract<ProcessEvent, { kind: 'exited' }>): Promise<ExecEvent> {
    this.stop();
    await this.#killed;
    return { ...exited, timedOut: this.#killed !== null && 'signal' in exited.exit && exited.exit.signal === SIGKILL };
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
