/** Connections to ports of a sandbox, by a key or by a share. As long as one is open, its sandbox is in use. */
import type { Input } from '@space/contract';
import { AppError, MAX_PORT_CONNECTIONS, type PortConnection, type SandboxId, type ShareId } from '@space/core';
import { Awake } from './awake.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { GrantWatch } from './grant-watch.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import type { RecordedShare } from './share-records.ts';

export class PortUseCases {
  readonly #machinery: Machinery;
  readonly #sandboxes: LifecycleUseCases;
  readonly #awake: Awake;
  readonly #shares: GrantWatch<ShareId>;
  readonly #open = new Map<SandboxId, number>();

  constructor(machinery: Machinery, sandboxes: LifecycleUseCases, shares: GrantWatch<ShareId>) {
    this.#machinery = machinery;
    this.#sandboxes = sandboxes;
    this.#awake = new Awake(machinery, sandboxes);
    this.#shares = shares;
  }

  async connectPort(caller: GatedCaller, { id, port }: Input<'connectPort'>): Promise<PortConnection> {
    const sandbox = await this.#sandboxes.find(caller, id);
    return this.#connect(caller, sandbox.id, port, caller.signal);
  }

  async connectShared({ id, sandboxId, port }: RecordedShare, outer: AbortSignal): Promise<PortConnection> {
    const { signal, leave } = this.#shares.enter(id);
    try {
      const connection = await this.#connect(undefined, sandboxId, port, AbortSignal.any([outer, signal]));
      void connection.closed.then(leave);
      return connection;
    } catch (thrown) {
      leave();
      throw thrown;
    }
  }

  /** Nobody says who asks. Throws `not_found` where the ports of the sandbox are not public. */
  async connectPublic(id: SandboxId, port: number, signal: AbortSignal): Promise<PortConnection> {
    const sandbox = await this.#machinery.ports.records.findSandbox(id);
    if (sandbox?.publicPorts !== true || sandbox.settled === 'deleted') {
      throw new AppError('not_found', 'There is no public port.');
    }
    return this.#connect(undefined, id, port, signal);
  }

  async #connect(
    caller: GatedCaller | undefined,
    id: SandboxId,
    port: number,
    signal: AbortSignal,
  ): Promise<PortConnection> {
    const release = this.#reserve(id);
    try {
      const { node } = this.#machinery.ports;
      const connection = await this.#awake.hold(caller, id, (_, revoked) =>
        node.openPort(id, port, AbortSignal.any([signal, revoked])),
      );
      void connection.closed.then(release);
      return connection;
    } catch (thrown) {
      release();
      throw thrown;
    }
  }

  #reserve(id: SandboxId): () => void {
    const open = this.#open.get(id) ?? 0;
    if (open >= MAX_PORT_CONNECTIONS) {
      throw new AppError('port_busy', {
        detail: `${open} connections to ports of the sandbox are open, and more may not be.`,
        facts: { max: MAX_PORT_CONNECTIONS },
      });
    }
    this.#open.set(id, open + 1);
    return () => {
      const left = (this.#open.get(id) ?? 1) - 1;
      if (left > 0) this.#open.set(id, left);
      else this.#open.delete(id);
    };
  }
}
