/**
 * Whether the keys of vaults may still be used. Of every vault that is open the KMS is asked again when its lease is over; and of each
 * that its KMS refused, so that it is back when that allows it. What the KMS answers counts, and what it does not is no refusal:
 *
 * | it answers                   | then                                                                                   |
 * | ---------------------------- | -------------------------------------------------------------------------------------- |
 * | the key                      | it is wiped at once, and the lease goes on; a refusal of before is over                 |
 * | that it may not be used      | the vault is revoked, as by a key holder                                                |
 * | that it does not fit         | nobody has refused anything: an alarm in the log, else as where it answers nothing      |
 * | nothing, or trouble of its own | what runs goes on for as long as the vault says (`outageMs`); then it is paused, and closed |
 */
import { type AppError, asAppError, type VaultName } from '@space/core';
import type { ControlPorts } from './ports.ts';
import type { VaultHalt } from './vault-halt.ts';
import type { VaultKeys } from './vault-keys.ts';
import type { RecordedVault } from './vault-records.ts';

/** How long an answer of a KMS is good for. */
export const LEASE_MS = 60_000;

interface Lease {
  /** When it was last asked, and when it last gave the key; on the monotonic clock. */
  readonly askedMs: number;
  readonly givenMs: number;
}

export interface LeasePorts {
  readonly ports: ControlPorts;
  readonly keys: VaultKeys;
  readonly halt: VaultHalt;
  /** Those that are open on the node, also since before this process was there. */
  opened(): Promise<readonly VaultName[]>;
}

export class VaultLease {
  readonly #with: LeasePorts;
  readonly #leases = new Map<VaultName, Lease>();

  constructor(leasing: LeasePorts) {
    this.#with = leasing;
  }

  /** Of all vaults at once: one KMS that hangs holds up no other. */
  async round(): Promise<void> {
    const { ports, keys } = this.#with;
    if (ports.kms === undefined) return;
    const vaults = await ports.records.vaults.all();
    const known = new Set(vaults.map(({ name }) => name));
    for (const name of this.#leases.keys()) if (!known.has(name)) this.#leases.delete(name);
    for (const vault of vaults) keys.note(vault);
    // Without the node, those that this process has opened.
    const open = new Set([...keys.held(), ...(await this.#with.opened().catch(() => []))]);
    const keyed = vaults.filter(({ keyring }) => keyring !== null);
    await Promise.all(keyed.map((vault) => this.#lookAfter(vault, open.has(vault.name))));
  }

  async #lookAfter(vault: RecordedVault, isOpen: boolean): Promise<void> {
    const { keys, halt, ports } = this.#with;
    // Also one that another process has revoked, or that could not be closed when it was.
    if (vault.revocation !== null) await halt.beginWhereRevoked(vault.name);
    if (!isOpen && vault.revocation?.cause !== 'refused') {
      this.#leases.delete(vault.name);
      return;
    }
    const nowMs = ports.clock.monotonicMs();
    const lease = this.#leases.get(vault.name) ?? { askedMs: nowMs, givenMs: nowMs };
    this.#leases.set(vault.name, lease);
    if (nowMs - lease.askedMs < LEASE_MS) return;
    const answer = await keys.look(vault).then(() => null, asAppError);
    if (answer === null) await this.#given(vault);
    else if (answer.code === 'kms_refused') await this.#refused(vault, answer);
    else await this.#notAnswered(vault, lease, answer);
  }

  async #given(vault: RecordedVault): Promise<void> {
    const nowMs = this.#with.ports.clock.monotonicMs();
    this.#leases.set(vault.name, { askedMs: nowMs, givenMs: nowMs });
    if (vault.revocation?.cause !== 'refused') return;
    const { ports, keys } = this.#with;
    const changed = await ports.records.vaults.change(vault, { revocation: null }, this.#now());
    if (changed === null) return;
    keys.note(changed);
    await keys.audit.told({ vault, cause: 'lease', by: null }, 'ok');
    ports.logger.info({ vault: vault.name }, 'the KMS allows the key of a vault again');
  }

  async #refused(vault: RecordedVault, { code, message }: AppError): Promise<void> {
    const { ports, keys, halt } = this.#with;
    const nowMs = ports.clock.monotonicMs();
    this.#leases.set(vault.name, { askedMs: nowMs, givenMs: this.#leases.get(vault.name)?.givenMs ?? nowMs });
    if (vault.revocation !== null) return;
    const revocation = { cause: 'refused', by: null, detail: message, at: this.#now() } as const;
    const changed = await ports.records.vaults.change(vault, { revocation }, revocation.at);
    // Changed meanwhile: its key may be another one now. The next round asks by that.
    if (changed === null) return;
    keys.note(changed);
    await keys.audit.told({ vault, cause: 'lease', by: null }, code);
    ports.logger.warn({ vault: vault.name, code }, 'the KMS refuses the key of a vault, which is revoked by that');
    void halt.begin(changed);
  }

  async #notAnswered(vault: RecordedVault, { givenMs }: Lease, err: AppError): Promise<void> {
    const { ports, halt } = this.#with;
    const nowMs = ports.clock.monotonicMs();
    this.#leases.set(vault.name, { askedMs: nowMs, givenMs });
    const told = { vault: vault.name, err, forMs: Math.round(nowMs - givenMs) };
    if (err.code === 'vault_key_wrong')
      ports.logger.error(told, 'the KMS does not unwrap the keyring of a vault by its key');
    else ports.logger.warn(told, 'the KMS of a vault does not answer');
    if (vault.revocation !== null || vault.outageMs === null || nowMs - givenMs < vault.outageMs) return;
    // Changed meanwhile: it may be another KMS's now.
    if ((await ports.records.vaults.find(vault.name))?.version !== vault.version) return;
    // Not revoked: whatever needs it next asks the KMS, and is told to ask again while that is away.
    void halt.begin({ name: vault.name, onRevoke: 'pause' });
  }

  #now(): Date {
    return new Date(this.#with.ports.clock.now());
  }
}
