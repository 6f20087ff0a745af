/**
 * Pauses what is idle. The decision is core's (`idle.ts`); the pause is the ordinary one, decided once more inside the
 * driver's turn. A use is noted before it takes its turn, so it either stops the pause or waits for its end and wakes.
 *
 * A pause can fail for ever: root in a guest can shut its agent out, and without that no memory is kept. Then the sandbox
 * runs on, holds its memory, and says so, with what leads out; it is tried again at longer and longer intervals.
 */
import { asAppError, type ErrorCode, type SandboxId } from '@space/core';
import type { ActivityLog } from './activity.ts';
import { Backoff } from './backoff.ts';
import { NotIdleError } from './effects.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';
import type { Sample } from './sampler.ts';

/** Pauses at once; each writes a sandbox's memory out. */
const PARALLEL_PAUSES = 4;
/** Above so many, those that have ended are looked for also in a sandbox that is not idle. */
const MANY_KEEPERS = 100;
/** From so many failed pauses in a row on, the sandbox says so. */
const TOLD_AFTER = 3;
/** Something else came first, or could not be asked: that says nothing about the sandbox. */
const NO_FAILURES: readonly ErrorCode[] = [
  'operation_in_progress',
  'superseded',
  'not_found',
  'vm_lost',
  'wrong_state',
  'unavailable',
  'node_unavailable',
];

interface Failures {
  readonly attempts: number;
  readonly since: Date;
}

export class IdlePauses {
  readonly #ports: Machinery['ports'];
  readonly #activity: ActivityLog;
  readonly #sandboxes: LifecycleUseCases;
  readonly #underWay = new Map<SandboxId, Promise<void>>();
  readonly #failures = new Map<SandboxId, Failures>();
  readonly #backoff: Backoff<SandboxId>;

  constructor({ ports, activity }: Machinery, sandboxes: LifecycleUseCases) {
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
    const { code, message: detail } = asAppError(thrown);
    if (NO_FAILURES.includes(code)) return;
    const at = new Date(this.#ports.clock.now());
    const before = this.#failures.get(id);
    const failures = { attempts: (before?.attempts ?? 0) + 1, since: before?.since ?? at };
    this.#failures.set(id, failures);
    this.#backoff.failed(id);
    if (failures.attempts >= TOLD_AFTER)
      await this.#ports.records.notePauseFailure(id, { code, detail, ...failures }, at);
  }

  /** Of what does not run, nothing is remembered. */
  #forgetOthersThan(running: ReadonlySet<SandboxId>): void {
    this.#backoff.retain(running);
    for (const id of this.#failures.keys()) if (!running.has(id)) this.#failures.delete(id);
  }

  async #isKeptAwake({ id, keepers }: RecordedSandbox): Promise<boolean> {
    if (keepers.length === 0) return false;
    const alive = new Set((await this.#ports.node.processes(id)).map(({ processId }) => processId));
    const ended = keepers.filter((keeper) => !alive.has(keeper));
    if (ended.length > 0) await this.#ports.records.dropKeepers(id, ended);
    return ended.length < keepers.length;
  }
}
