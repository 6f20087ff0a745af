/**
 * The ledger: which sandboxes this node holds, as their records in the vaults say, and who may change them now.
 *
 * - One order at a time per sandbox (`exclusively`).
 * - An order's epoch is announced before it waits for its turn, so a later order fences an earlier one that is under way:
 *   each effect is preceded by `checkEpoch`, which throws `superseded`.
 * - A record is durable before anybody is told of what it says.
 * - A sandbox whose record cannot be read is set aside: it is neither held nor gone, and may only be destroyed.
 */
import { AppError, type SandboxId, type SandboxRecord, type Vault, type VaultName } from '@space/core';

interface Entry {
  record: SandboxRecord | null;
  vault: Vault | null;
  announcedEpoch: number;
  tail: Promise<unknown>;
  waiting: number;
}

export interface Held {
  readonly vault: Vault;
  readonly record: SandboxRecord;
}

/** How many sandboxes that are gone are remembered by their last epoch, so that a late order does not revive one. */
const REMEMBERED = 10_000;

export class Ledger {
  readonly #entries = new Map<SandboxId, Entry>();
  readonly #gone = new Map<SandboxId, number>();
  readonly #aside = new Map<SandboxId, AppError>();
  readonly #vaults: ReadonlyMap<VaultName, Vault>;

  constructor(vaults: ReadonlyMap<VaultName, Vault>) {
    this.#vaults = vaults;
  }

  vault(name: VaultName): Vault {
    const vault = this.#vaults.get(name);
    if (vault === undefined) throw new AppError('not_found', `There is no open vault "${name}" on this node.`);
    return vault;
  }

  async load(): Promise<void> {
    for (const vault of this.#vaults.values()) {
      const { records, damaged } = await vault.sandboxes();
      for (const { sandboxId, reason } of damaged) this.#aside.set(sandboxId, reason);
      for (const record of records) {
        const entry = this.#entry(record.sandboxId);
        entry.record = record;
        entry.vault = vault;
        entry.announcedEpoch = record.epoch;
      }
    }
  }

  held(): readonly Held[] {
    return [...this.#entries.values()].flatMap(({ vault, record }) => (vault && record ? [{ vault, record }] : []));
  }

  /** Why the records of those that are set aside cannot be read. */
  aside(): readonly AppError[] {
    return [...this.#aside.values()];
  }

  /** Throws `record_bad` for one that is set aside, of which nothing is known. */
  find(sandboxId: SandboxId): Held | undefined {
    const reason = this.#aside.get(sandboxId);
    if (reason !== undefined) throw reason;
    return this.findReadable(sandboxId);
  }

  findReadable(sandboxId: SandboxId): Held | undefined {
    const entry = this.#entries.get(sandboxId);
    return entry?.vault && entry.record ? { vault: entry.vault, record: entry.record } : undefined;
  }

  get(sandboxId: SandboxId): Held {
    const held = this.find(sandboxId);
    if (held === undefined) throw new AppError('not_found', `This node holds no sandbox ${sandboxId}.`);
    return held;
  }

  /** Runs `order` when no other order on the sandbox is under way. */
  async exclusively<T>(sandboxId: SandboxId, epoch: number, order: () => Promise<T>): Promise<T> {
    const entry = this.#entry(sandboxId);
    entry.announcedEpoch = Math.max(entry.announcedEpoch, epoch);
    entry.waiting += 1;
    const turn = entry.tail.then(async () => {
      this.checkEpoch(sandboxId, epoch);
      return order();
    });
    entry.tail = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      entry.waiting -= 1;
      if (entry.waiting === 0 && entry.record === null) this.#forget(sandboxId, entry);
    }
  }

  /** Returns when no order on the sandbox is under way or waits for its turn. */
  async settled(sandboxId: SandboxId): Promise<void> {
    for (let entry = this.#entries.get(sandboxId); entry && entry.waiting > 0; entry = this.#entries.get(sandboxId)) {
      await entry.tail;
    }
  }

  checkEpoch(sandboxId: SandboxId, epoch: number): void {
    const highest = this.#entries.get(sandboxId)?.announcedEpoch ?? 0;
    if (epoch < highest) {
      throw new AppError('superseded', {
        detail: `A later operation on ${sandboxId} took over.`,
        facts: { epoch, highest },
      });
    }
  }

  async write(vault: Vault, record: SandboxRecord): Promise<void> {
    await vault.writeSandbox(record);
    const entry = this.#entry(record.sandboxId);
    entry.record = record;
    entry.vault = vault;
  }

  async remove(vault: Vault, sandboxId: SandboxId): Promise<void> {
    await vault.deleteSandbox(sandboxId);
    this.#aside.delete(sandboxId);
    this.#entry(sandboxId).record = null;
  }

  #entry(sandboxId: SandboxId): Entry {
    let entry = this.#entries.get(sandboxId);
    if (entry === undefined) {
      const announcedEpoch = this.#gone.get(sandboxId) ?? 0;
      entry = { record: null, vault: null, announcedEpoch, tail: Promise.resolve(), waiting: 0 };
      this.#entries.set(sandboxId, entry);
    }
    return entry;
  }

  #forget(sandboxId: SandboxId, { announcedEpoch }: Entry): void {
    this.#entries.delete(sandboxId);
    this.#gone.set(sandboxId, announcedEpoch);
    const [oldest] = this.#gone.keys();
    if (this.#gone.size > REMEMBERED && oldest !== undefined) this.#gone.delete(oldest);
  }
}
