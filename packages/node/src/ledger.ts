/**
 * The ledger: which sandboxes this node holds, as their records in the vaults say, and who may change them now.
 *
 * - One order at a time per sandbox (`exclusively`).
 * - An order's epoch is announced before it waits for its turn, so a later order fences an earlier one that is under way:
 *   each effect is preceded by `checkEpoch`, which throws `superseded`.
 * - A record is durable before anybody is told of what it says.
 * - Of a vault that is closed nothing is known but the last epochs: a late order is refused also after it was opened again.
 * - A sandbox whose record cannot be read is set aside: it is neither held nor gone, and may only be destroyed.
 */
import { AppError, type SandboxId, type SandboxRecord, type Vault, type VaultName } from '@space/core';
import type { Vaults, VaultUse } from './vaults.ts';

interface Entry {
  record: SandboxRecord | null;
  vault: Vault | null;
  announcedEpoch: number;
  tail: Promise<unknown>;
  waiting: number;
}

interface Turn {
  readonly vault: VaultName;
  readonly sandboxId: SandboxId;
  readonly epoch: number;
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
  readonly #aside = new Map<SandboxId, { readonly vault: VaultName; readonly reason: AppError }>();
  readonly #vaults: Pick<Vaults, 'get' | 'use'>;

  constructor(vaults: Pick<Vaults, 'get' | 'use'>) {
    this.#vaults = vaults;
  }

  /** Throws `vault_closed`. Of whoever holds a use of it. */
  vault(name: VaultName): Vault {
    return this.#vaults.get(name);
  }

  /** What lies in a vault that was opened; may be told again. */
  async load(vault: Vault): Promise<void> {
    const { records, damaged } = await vault.sandboxes();
    for (const { sandboxId, reason } of damaged) this.#aside.set(sandboxId, { vault: vault.name, reason });
    for (const record of records) {
      const entry = this.#entry(record.sandboxId);
      entry.record = record;
      entry.vault = vault;
      entry.announcedEpoch = Math.max(entry.announcedEpoch, record.epoch);
    }
  }

  /** The vault is closed. */
  unload(name: VaultName): void {
    for (const [sandboxId, { vault }] of this.#aside) if (vault === name) this.#aside.delete(sandboxId);
    for (const [sandboxId, entry] of this.#entries) {
      if (entry.vault?.name !== name) continue;
      entry.record = null;
      entry.vault = null;
      if (entry.waiting === 0) this.#forget(sandboxId, entry);
    }
  }

  held(): readonly Held[] {
    return [...this.#entries.values()].flatMap(({ vault, record }) => (vault && record ? [{ vault, record }] : []));
  }

  /** Why the records of those that are set aside cannot be read. */
  aside(): readonly AppError[] {
    return [...this.#aside.values()].map(({ reason }) => reason);
  }

  /** Throws `record_bad` for one that is set aside, of which nothing is known. */
  find(sandboxId: SandboxId): Held | undefined {
    const aside = this.#aside.get(sandboxId);
    if (aside !== undefined) throw aside.reason;
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

  /** Runs `order` when no other order on the sandbox is under way, with its vault held open from now on. */
  async exclusively<T>({ vault, sandboxId, epoch }: Turn, order: (use: VaultUse) => Promise<T>): Promise<T> {
    return this.#vaults.use(vault, (use) => this.#exclusively(sandboxId, epoch, () => order(use)));
  }

  async #exclusively<T>(sandboxId: SandboxId, epoch: number, order: () => Promise<T>): Promise<T> {
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
