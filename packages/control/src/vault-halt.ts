/**
 * What follows a revocation: what runs in the vault is paused or ended, as the vault says, and the vault is closed, which is verified
 * with the node; its keys are wiped. It is repeated until it is so. Nothing of it is awaited by whoever revokes: that no more is begun
 * holds from the moment that the revocation is recorded.
 */
import { hasVm, type NodePort, type SandboxId, type VaultName } from '@space/core';
import type { ControlPorts } from './ports.ts';
import { settledWithin } from './turns.ts';
import type { VaultKeys } from './vault-keys.ts';
import type { RecordedVault } from './vault-records.ts';

const PAUSE_WITHIN_MS = 30_000;
const PAUSED_AT_ONCE = 4;

export interface HaltingPorts {
  readonly ports: Pick<ControlPorts, 'records' | 'node' | 'logger'>;
  readonly keys: VaultKeys;
  pause(id: SandboxId): Promise<void>;
  /** Ends what runs, and waits for an opening that is under way. */
  close(name: VaultName): Promise<void>;
}

export class VaultHalt {
  readonly #with: HaltingPorts;
  readonly #underWay = new Map<VaultName, Promise<void>>();

  constructor(halting: HaltingPorts) {
    this.#with = halting;
  }

  /** Begins it, or joins the one that is under way. Never rejects. */
  begin(vault: Pick<RecordedVault, 'name' | 'onRevoke'>): Promise<void> {
    const { logger } = this.#with.ports;
    const present = this.#underWay.get(vault.name);
    if (present !== undefined) return present;
    const halting = this.#halt(vault)
      .catch((err: unknown) =>
        logger.warn({ vault: vault.name, err }, 'a vault could not be closed; the next round will try'),
      )
      .finally(() => this.#underWay.delete(vault.name));
    this.#underWay.set(vault.name, halting);
    return halting;
  }

  /** As `begin`, where the record still says so: whoever saw it revoked may have seen it before it was reinstated. */
  async beginWhereRevoked(name: VaultName): Promise<void> {
    const now = await this.#with.ports.records.vaults.find(name);
    if (now === null) return;
    this.#with.keys.note(now);
    if (now.revocation !== null) void this.begin(now);
  }

  async settled(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  async #halt({ name, onRevoke }: Pick<RecordedVault, 'name' | 'onRevoke'>): Promise<void> {
    const { keys, ports, close } = this.#with;
    if (!(await isThere(ports.node, name))) return keys.closed(name);
    if (onRevoke === 'pause') await settledWithin(this.#pauseAll(name), PAUSE_WITHIN_MS);
    await close(name);
    if (await isThere(ports.node, name)) throw new Error('the node has it open still');
    keys.closed(name);
    ports.logger.info({ vault: name }, 'a vault is closed, since its key is revoked or cannot be had');
  }

  async #pauseAll(name: VaultName): Promise<void> {
    const { ports, pause } = this.#with;
    const running = (await ports.records.allSandboxes()).filter(
      ({ vault, settled }) => vault === name && hasVm(settled),
    );
    const left = running.map(({ id }) => id);
    const worker = async () => {
      for (let id = left.shift(); id !== undefined; id = left.shift()) {
        await pause(id).catch((err: unknown) =>
          ports.logger.warn({ sandboxId: id, vault: name, err }, 'a sandbox could not be paused, and is ended'),
        );
      }
    };
    await Promise.all(Array.from({ length: PAUSED_AT_ONCE }, worker));
  }
}

async function isThere(node: NodePort, name: VaultName): Promise<boolean> {
  return (await node.vaults()).some(({ vault, state }) => vault === name && state !== 'closed');
}
