/** Reaching into a sandbox: a paused one is woken first, and again when a pause came in between. */
import { AppError, type SandboxId } from '@space/core';
import type { GatedCaller } from './gated-caller.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';
import { stoppable } from './streams.ts';

/** A pause may come between the wake and the call; after so many in a row the caller is told. */
const MAX_WAKES = 3;

/** A use of a sandbox: as long as it is open, the sandbox is not idle. */
export interface Use {
  readonly id: SandboxId;
  /** Idempotent. */
  end(): void;
}

export class Awake {
  readonly #machinery: Machinery;
  readonly #sandboxes: LifecycleUseCases;

  constructor(machinery: Machinery, sandboxes: LifecycleUseCases) {
    this.#machinery = machinery;
    this.#sandboxes = sandboxes;
  }

  /** The signal aborts when the key of its vault is revoked. */
  async use<T>(
    caller: GatedCaller,
    reference: string,
    use: (sandboxId: SandboxId, revoked: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { id, end } = await this.begin(caller, reference);
    try {
      return await this.#onceAwake(caller, id, use);
    } finally {
      end();
    }
  }

  /** The use lasts for as long as what was opened is open; its signal aborts when the key of the vault is revoked. Without a caller, it is by a share. */
  async hold<T extends { readonly closed: Promise<void> }>(
    caller: GatedCaller | undefined,
    id: SandboxId,
    open: (sandboxId: SandboxId, revoked: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const end = this.#machinery.activity.begin(id);
    try {
      const opened = await this.#onceAwake(caller, id, open);
      void opened.closed.then(end);
      return opened;
    } catch (thrown) {
      end();
      throw thrown;
    }
  }

  /** Must be ended. Begun before the wake, so that no pause for idleness comes after it. */
  async begin(caller: GatedCaller, reference: string): Promise<Use> {
    const { id } = await this.#sandboxes.find(caller, reference);
    return { id, end: this.#machinery.activity.begin(id) };
  }

  /** A stream from a sandbox, which ends with `vault_revoked` when its vault is. One that was refused because of a pause, before its first item, is opened again. */
  stream<T>(
    caller: GatedCaller,
    reference: string,
    open: (sandbox: RecordedSandbox, signal: AbortSignal) => AsyncIterable<T>,
  ): AsyncIterable<T> {
    const begin = () => this.begin(caller, reference);
    const { vaults } = this.#machinery;
    const wake = (id: SandboxId, signal: AbortSignal) => this.wake({ ...caller, signal }, id);
    return stoppable(caller.signal, async function* (signal) {
      const { id, end } = await begin();
      try {
        for (let wakes = 1; ; wakes++) {
          const sandbox = await wake(id, signal);
          let begun = false;
          const revoked = vaults.whileUsable(sandbox.vault);
          try {
            for await (const item of open(sandbox, AbortSignal.any([signal, revoked]))) {
              signal.throwIfAborted();
              revoked.throwIfAborted();
              begun = true;
              yield item;
            }
            return;
          } catch (thrown) {
            // Whatever it ended by, that is why.
            revoked.throwIfAborted();
            if (begun || wakes >= MAX_WAKES || !wasPaused(thrown)) throw thrown;
          }
        }
      } finally {
        end();
      }
    });
  }

  async #onceAwake<T>(
    caller: GatedCaller | undefined,
    id: SandboxId,
    use: (id: SandboxId, revoked: AbortSignal) => Promise<T>,
  ): Promise<T> {
    for (let wakes = 1; ; wakes++) {
      const { vault } = await this.wake(caller, id);
      try {
        return await use(id, this.#machinery.vaults.whileUsable(vault));
      } catch (thrown) {
        if (wakes >= MAX_WAKES || !wasPaused(thrown)) throw thrown;
      }
    }
  }

  async wake(caller: GatedCaller | undefined, id: SandboxId): Promise<RecordedSandbox> {
    const { driver, effects, vaults } = this.#machinery;
    const { sandbox } = await driver.perform(id, 'use', effects.wake(), caller);
    // It may run still while it is being stopped.
    vaults.requireUsable(sandbox.vault);
    // After a restart its vault may be open without our holding the key of what it says of itself.
    if (sandbox.sealed !== null) await vaults.ensureOpen(sandbox.vault);
    return sandbox;
  }
}

/** Nothing was done: the node refuses before it acts when nothing runs. What the guest answers never has that fact. */
function wasPaused(thrown: unknown): boolean {
  return thrown instanceof AppError && thrown.code === 'wrong_state' && thrown.facts['paused'] === true;
}
