/**
 * A life: one running VM of a sandbox (or of a template being made ready) with the channel to its agent.
 *
 * The channel can break while the VM lives (the daemon was restarted, the agent crashed); it is opened again at the next
 * use. When the VM ends, every stream ends with the reason: `vm_lost` when nobody asked for the end.
 */
import {
  AppError,
  asAppError,
  type Guest,
  type LifeId,
  type LifeUsage,
  type SnapshotId,
  type Vault,
  type Vm,
} from '@space/core';

/** Connects to the agent of a VM; its first answer may take up to `openMs`. */
export type ConnectGuest = (vm: Vm, openMs: number) => Promise<Guest>;

/** The first answer of an agent whose VM already ran, and of one that boots. */
const OPEN_MS = 15_000;
const BOOT_MS = 120_000;

/** How long an error of a stream waits to learn whether the VM behind it has died. */
const POST_MORTEM_MS = 250;

export class Life {
  readonly lifeId: LifeId;
  readonly vault: Vault;
  readonly vm: Vm;
  /** Aborts when it is over, or let go of, with the reason. */
  readonly gone: AbortSignal;
  /** What connections that its programs opened to the outside have carried. */
  outgoingBytes = 0;
  readonly #gone = new AbortController();
  readonly #connect: ConnectGuest;
  #channel: Promise<Guest> | null = null;
  #endReason: string | null = null;
  #halted = false;
  #mustGoOn = false;

  readonly #openMs: number;

  constructor(vault: Vault, vm: Vm, connect: ConnectGuest, options: { readonly booting?: boolean } = {}) {
    this.#openMs = options.booting === true ? BOOT_MS : OPEN_MS;
    this.lifeId = vm.record.lifeId;
    this.vault = vault;
    this.vm = vm;
    this.#connect = connect;
    this.gone = this.#gone.signal;
    void vm.ended.then(({ detail }) => this.#leave(`the microVM ended: ${detail}`));
  }

  /** Whether the end of the VM is our doing. */
  get endReason(): string | null {
    return this.#endReason;
  }

  /** Whether its vCPUs stand still until `letGoOn`, since its vault is nearly full. */
  get halted(): boolean {
    return this.#halted;
  }

  /** Stops the vCPUs, whatever else is under way: what is asked of the guest meanwhile fails with `out_of_space`. */
  async halt(): Promise<void> {
    this.#halted = true;
    await this.vm.stop();
  }

  /** Throws, and stands still as before, when it cannot run. */
  async letGoOn(): Promise<void> {
    this.#halted = false;
    try {
      await this.vm.run();
    } catch (error) {
      this.#halted = true;
      throw error;
    }
    // Its user code may be frozen, when it was stopped in the middle of a window; then the first to come lets it go on.
    if (this.#channel === null) this.guest().catch(() => undefined);
  }

  /** The channel to the agent, opened on first use and again after it broke. */
  guest(): Promise<Guest> {
    if (this.#halted) return Promise.reject(outOfSpace());
    if (this.#channel === null) {
      const channel = this.#mustGoOn ? this.#openAndGoOn() : this.#connect(this.vm, this.#openMs);
      this.#channel = channel;
      const forget = () => {
        if (this.#channel === channel) this.#channel = null;
      };
      channel.then((guest) => guest.closed.then(forget), forget);
    }
    return this.#channel;
  }

  /** Null when it has ended by now. */
  async usage(): Promise<LifeUsage | null> {
    try {
      const [usage, diskBytes] = await Promise.all([this.vm.usage(), this.vault.diskBytes(this.lifeId)]);
      return { ...usage, lifeId: this.lifeId, diskBytes, outgoingBytes: this.outgoingBytes };
    } catch (thrown) {
      const error = await this.explain(thrown);
      if (this.#endReason !== null || error.code === 'vm_lost') return null;
      throw error;
    }
  }

  /**
   * Brings the VM from wherever it stands back to running user code; `onRun` is called once the vCPUs run. One that is
   * halted is left as it is, and goes on in full once it may. Throws when its agent does not answer on a fresh channel
   * either; the next use tries again.
   */
  async goOn(onRun: () => void = () => undefined): Promise<void> {
    const isFresh = this.#mustGoOn;
    try {
      if (!this.#halted) await this.vm.run();
      onRun();
      await (await this.guest()).thaw();
    } catch (error) {
      this.goOnAtNextUse();
      if (this.#halted) return;
      if (isFresh) throw error;
      await this.guest();
      onRun();
    }
  }

  /** The VM may stand still or its user code be frozen: the next use opens a fresh channel, and first lets both go on. */
  goOnAtNextUse(): void {
    this.#channel = null;
    this.#mustGoOn = true;
  }

  async #openAndGoOn(): Promise<Guest> {
    await this.vm.run();
    const guest = await this.#connect(this.vm, this.#openMs);
    await guest.thaw();
    this.#mustGoOn = false;
    return guest;
  }

  /** Ends the VM for a stated reason and frees its files, or keeps them for the next life from the point. Idempotent. */
  async end(reason: string, keptFor: SnapshotId | null = null): Promise<void> {
    this.#endReason ??= reason;
    this.#leave(reason);
    const channel = this.#channel;
    await this.vm.kill();
    if (channel !== null) await channel.then((guest) => guest.close()).catch(() => undefined);
    if (keptFor !== null && (await this.#keep(keptFor))) return;
    await this.vault.deleteLife(this.lifeId);
  }

  #keep(snapshotId: SnapshotId): Promise<boolean> {
    return this.vault.keepLife(this.lifeId, snapshotId).then(
      () => true,
      () => false,
    );
  }

  /** Lets go of the VM, which runs on. */
  async release(): Promise<void> {
    this.#leave('the node is being closed');
    const channel = this.#channel;
    this.#channel = null;
    if (channel !== null) await channel.then((guest) => guest.close()).catch(() => undefined);
    await this.vm.release();
  }

  #leave(reason: string): void {
    if (!this.gone.aborted) this.#gone.abort(new AppError('link_lost', `The connection ended: ${reason}.`));
  }

  /** The error that a user should see for one that came out of the channel: what became of the VM explains it best. */
  async explain(thrown: unknown): Promise<AppError> {
    const error = asAppError(thrown);
    if (this.#halted && error.code === 'agent_lost') return outOfSpace(thrown);
    if (error.code !== 'link_lost' && error.code !== 'agent_lost' && error.code !== 'vm_lost') return error;
    const ended = await Promise.race([
      this.vm.ended,
      new Promise<null>((resolve) => setTimeout(resolve, POST_MORTEM_MS, null)),
    ]);
    // A pause or a rewind ends the VM, and loses nothing.
    if (this.#endReason !== null)
      return new AppError('link_lost', `The stream ended: ${this.#endReason}.`, { cause: thrown });
    if (ended === null || error.code === 'vm_lost') return error;
    return new AppError('vm_lost', `The microVM ended: ${ended.detail}.`, { cause: thrown });
  }
}

function outOfSpace(cause?: unknown): AppError {
  const detail = 'The sandbox stands still since its vault is nearly full.';
  return new AppError('out_of_space', detail, cause === undefined ? undefined : { cause });
}
