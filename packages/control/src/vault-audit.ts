/**
 * Every time a KMS is asked for the key of a vault, who made it so, why, and what it answered: in the audit of the organisation, and
 * so in its chain. An unwrap that cannot be recorded is not made.
 */
import { type AuditId, asAppError, type ErrorCode, newId, PLATFORM_KEY } from '@space/core';
import type { Asker } from './audit-records.ts';
import type { ControlPorts } from './ports.ts';
import { retryUnavailable } from './retry.ts';
import type { RecordedVault } from './vault-records.ts';

/** `open`: something needed the vault. `rotate`: its key is to be another. `lease`: a look, whose answer was not the one before. `archive`: one was read. */
type UnwrapCause = 'open' | 'rotate' | 'lease' | 'archive';

export interface UnwrapUse {
  readonly vault: Pick<RecordedVault, 'name' | 'organisationId'>;
  readonly cause: UnwrapCause;
  /** Null: the platform by itself. */
  readonly by: Asker | null;
}

export class VaultAudit {
  readonly #ports: Pick<ControlPorts, 'records' | 'clock' | 'chance' | 'logger'>;

  constructor(ports: Pick<ControlPorts, 'records' | 'clock' | 'chance' | 'logger'>) {
    this.#ports = ports;
  }

  /** Records it before, and how it ended after. */
  async around<T>(use: UnwrapUse, unwrap: () => Promise<T>): Promise<T> {
    const id = await this.#append(use, null);
    try {
      const result = await unwrap();
      await this.#complete(id, 'ok');
      return result;
    } catch (thrown) {
      await this.#complete(id, asAppError(thrown).code);
      throw thrown;
    }
  }

  /** Of one that is over. */
  async told(use: UnwrapUse, outcome: 'ok' | ErrorCode): Promise<void> {
    await this.#append(use, outcome);
  }

  async #append({ vault, cause, by }: UnwrapUse, outcome: 'ok' | ErrorCode | null): Promise<AuditId> {
    const auditId = newId('audit', this.#ports.chance);
    const record = {
      auditId,
      // One request may open several vaults, and the audit has one record of each request.
      requestId: `${by?.requestId ?? 'platform'}/${auditId}`,
      apiKeyId: by?.apiKeyId ?? PLATFORM_KEY,
      organisationId: vault.organisationId,
      projectId: null,
      action: 'vault.unwrap',
      call: `unwrap/${cause}`,
      target: vault.name,
      outcome,
      at: new Date(this.#ports.clock.now()),
    } as const;
    await retryUnavailable(() => this.#ports.records.audit.append(record, 'now'));
    return auditId;
  }

  async #complete(id: AuditId, outcome: 'ok' | ErrorCode): Promise<void> {
    await retryUnavailable(() => this.#ports.records.audit.complete(id, { target: null, outcome })).catch((err) =>
      this.#ports.logger.error({ err, id, outcome }, 'how an unwrap ended could not be recorded'),
    );
  }
}
