/**
 * Snapshots at the end of commands that were marked so. While somebody reads the command's events, the point is taken before
 * they are told of the end; else its end is looked for at intervals. What waits for its end is kept in memory only: after a
 * restart of the platform, none is taken.
 */
import { asAppError, type ProcessEvent, type ProcessId, type SandboxId } from '@space/core';
import { NotRunningError } from './effects.ts';
import type { Machinery } from './lifecycle-use-cases.ts';

/** Commands whose end is waited for, in all. */
const MAX_WAITING = 1_000;

export class Checkpoints {
  readonly #machinery: Machinery;
  readonly #waiting = new Map<ProcessId, SandboxId>();

  constructor(machinery: Machinery) {
    this.#machinery = machinery;
  }

  /** The events of a command, with a point taken before its end is told. */
  async *atEndOf(id: SandboxId, events: AsyncIterable<ProcessEvent>): AsyncGenerator<ProcessEvent, void> {
    let waitsAs: ProcessId | null = null;
    for await (const event of events) {
      if (event.kind === 'started' && this.#waiting.size < MAX_WAITING) {
        waitsAs = event.processId;
        this.#waiting.set(waitsAs, id);
      }
      if (event.kind === 'exited') {
        // Who looks at intervals may have been first.
        const isOurs = waitsAs === null || this.#waiting.delete(waitsAs);
        if (isOurs) await this.#take(id);
      }
      yield event;
    }
  }

  /** Looks for commands that have ended unread. */
  async round(): Promise<void> {
    for (const [id, waiting] of Map.groupBy(this.#waiting, ([, sandboxId]) => sandboxId)) {
      const alive = await this.#aliveIn(id);
      if (alive === null) continue;
      const ended = waiting.filter(([processId]) => !alive.has(processId) && this.#waiting.delete(processId));
      if (ended.length > 0) await this.#take(id);
    }
  }

  /** Null: that is not known now. A paused sandbox is not woken; its commands go on with it. */
  async #aliveIn(id: SandboxId): Promise<ReadonlySet<ProcessId> | null> {
    const { records, node } = this.#machinery.ports;
    const sandbox = await records.findSandbox(id);
    if (sandbox === null || sandbox.settled === 'deleted') return new Set();
    if (sandbox.settled !== 'running' || sandbox.operation !== null) return null;
    const processes = await node.processes(id).catch(() => null);
    return processes && new Set(processes.filter((one) => one.leaderAlive).map(({ processId }) => processId));
  }

  async #take(id: SandboxId): Promise<void> {
    const { driver, effects, ports } = this.#machinery;
    try {
      await driver.perform(id, 'snapshot', effects.unasked('checkpoint'));
    } catch (thrown) {
      const { code } = asAppError(thrown);
      if (thrown instanceof NotRunningError || code === 'not_found') return;
      ports.logger.warn({ sandboxId: id, err: thrown }, 'a checkpoint was not taken');
      const sandbox = await ports.records.findSandbox(id);
      if (sandbox !== null) await ports.records.history.noteSkip(sandbox, { at: new Date(ports.clock.now()), code });
    }
  }
}
