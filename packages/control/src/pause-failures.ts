/**
 * Pauses that nobody asked for by a call, of what is idle and of what has expired, and that fail again and again: nobody is told by an
 * answer, so the sandbox says so, with what leads out.
 */
import { asAppError, type ErrorCode, type SandboxId } from '@space/core';
import type { ControlPorts } from './ports.ts';

/** From so many in a row on, the sandbox says so. */
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

export class PauseFailures {
  readonly #ports: Pick<ControlPorts, 'records' | 'clock'>;
  readonly #failures = new Map<SandboxId, Failures>();

  constructor(ports: Pick<ControlPorts, 'records' | 'clock'>) {
    this.#ports = ports;
  }

  /** Whether the sandbox is what could not be paused. */
  static isOne(thrown: unknown): boolean {
    return !NO_FAILURES.includes(asAppError(thrown).code);
  }

  async failed(id: SandboxId, thrown: unknown): Promise<void> {
    const { code, message: detail } = asAppError(thrown);
    const at = new Date(this.#ports.clock.now());
    const before = this.#failures.get(id);
    const failures = { attempts: (before?.attempts ?? 0) + 1, since: before?.since ?? at };
    this.#failures.set(id, failures);
    if (failures.attempts >= TOLD_AFTER)
      await this.#ports.records.notePauseFailure(id, { code, detail, ...failures }, at);
  }

  /** Of what does not run, nothing is remembered. */
  retain(running: ReadonlySet<SandboxId>): void {
    for (const id of this.#failures.keys()) if (!running.has(id)) this.#failures.delete(id);
  }
}
