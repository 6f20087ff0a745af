/**
 * Pauses what is idle. The decision is core's (`idle.ts`); the pause is the ordinary one, decided once more inside the
 * driver's turn. A use is noted before it takes its turn, so it either stops the pause or waits for its end and wakes.
 *
 * A pause can fail for ever: root in a guest can shut its agent out, and without that no memory is kept. Then the sandbox
 * runs on, holds its memory, and says so, with what leads out; it is tried again at longer and longer intervals.
 */
import type { SandboxId } from '@space/core';
import type { ActivityLog } from './activity.ts';
import { Backoff } from './backoff.ts';
import { NotIdleError } from './effects.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import { PauseFailures } from './pause-failures.ts';
import type { RecordedSandbox } from './records.ts';
import type { Sample } from './sampler.ts';

/** Pauses at once; each writes a sandbox's memory out. */
const PARALLEL_PAUSES = 4;
/** Above so many, those that have ended are looked for also in a sandbox that is not idle. */
const MANY_KEEPERS = 100;

export class IdlePauses {
  readonly #ports: Machinery['ports'];
  readonly #activity: ActivityLog;
  readonly #sandboxes: LifecycleUseCases;
  readonly #underWay = new Map<SandboxId, Promise<void>>();
  readonly #pauseFailures: PauseFailures;
  readonly #backoff: Backoff<SandboxId>;

  constructor({ ports, activity }: Machinery, sandboxes: LifecycleUseCases, pauseFailures: PauseFailures) {
    this.#pauseFailures = pauseFailures;
    this.#backoff = new Backoff(ports.clock);
    this.#ports = ports;
    this.#activity = activity;
    this.#sandboxes = sandboxes;
  }

  /** After each round of the sampler. What is begun here ends by itself; see `settled`. */
  round(sandboxes: readonly RecordedSandbox[], samples: ReadonlyMap<SandboxId, Sample>): void {
    this.#activity.retain(new Set(sandboxes.map(({ id }) => id)));
    this.#forgetOthersThan(new Set(sandboxes.filter(({ settled }) => settled === 'running').map(({ id }) => id)));
    for (const sandbox of sandboxes) {
      const { id } = sandbox;
      this.#activity.sampled(sandbox, samples.get(id));
      if (!this.#activity.isIdle(sandbox) && sandbox.keepers.length <= MANY_KEEPERS) continue;
      if (sandbox.settled !== 'running' || this.#underWay.has(id) || this.#underWay.size >= PARALLEL_PAUSES) continue;
      if (!this.#backoff.mayTry(id)) continue;
      const attempt = this.#attend(sandbox)
        .catch((err: unknown) => {
          // Not at once again: a pause that fails has held the sandbox up.
          this.#activity.busy(id);
          this.#ports.logger.warn({ sandboxId: id, err }, 'an idle sandbox could not be paused');
          return this.#failed(id, err);
        })
        .catch((err: unknown) => this.#ports.logger.warn({ sandboxId: id, err }, 'that was not written down'))
        .finally(() => this.#underWay.delete(id));
      this.#underWay.set(id, attempt);
    }
  }

  /** When what is under way has ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  async #attend(sandbox: RecordedSandbox): Promise<void> {
    if (await this.#isKeptAwake(sandbox)) return this.#activity.busy(sandbox.id);
    if (!this.#activity.isIdle(sandbox)) return;
    try {
      await this.#sandboxes.pauseIdle(sandbox.id, (seen) => this.#activity.isIdle(seen));
    } catch (thrown) {
      if (!(thrown instanceof NotIdleError)) throw thrown;
    }
  }

  async #failed(id: SandboxId, thrown: unknown): Promise<void> {
    if (!PauseFailures.isOne(thrown)) return;
    this.#backoff.failed(id);
    await this.#pauseFailures.failed(id, thrown);
  }

  /** Of what does not run, nothing is remembered. */
  #forgetOthersThan(running: ReadonlySet<SandboxId>): void {
    this.#backoff.retain(running);
    this.#pauseFailures.retain(running);
  }

  async #isKeptAwake({ id, keepers }: RecordedSandbox): Promise<boolean> {
    if (keepers.length === 0) return false;
    const alive = new Set((await this.#ports.node.processes(id)).map(({ processId }) => processId));
    const ended = keepers.filter((keeper) => !alive.has(keeper));
    if (ended.length > 0) await this.#ports.records.dropKeepers(id, ended);
    return ended.length < keepers.length;
  }
}
