/**
 * Shares: tokens that let whoever holds one reach one port of a sandbox. A token has a prefix of its own, so
 * that it can be told from a key.
 */
import type { CreatedShare, Input, Share, ShareList } from '@space/contract';
import { AppError, newId, type SandboxId } from '@space/core';
import type { GatedCaller } from './gated-caller.ts';
import type { LifecycleUseCases } from './lifecycle-use-cases.ts';
import type { ControlPorts } from './ports.ts';
import { digestOf, isSecret, newSecret } from './secrets.ts';
import type { RecordedShare } from './share-records.ts';

const PREFIX = 'spaceshare_';
const MAX_SHARES = 100;

/** What a token is used for. */
export interface SharedPort {
  readonly sandboxId: SandboxId;
  readonly port: number;
}

export class Shares {
  readonly #ports: ControlPorts;
  readonly #sandboxes: LifecycleUseCases;
  readonly #onRevoked: (share: RecordedShare['id']) => void;

  constructor(ports: ControlPorts, sandboxes: LifecycleUseCases, onRevoked: (share: RecordedShare['id']) => void) {
    this.#ports = ports;
    this.#sandboxes = sandboxes;
    this.#onRevoked = onRevoked;
  }

  async createShare(caller: GatedCaller, input: Input<'createShare'>): Promise<Omit<CreatedShare, 'url'>> {
    const { chance, clock, records } = this.#ports;
    const { id: sandboxId, projectId } = await this.#sandboxes.find(caller, input.id);
    const token = newSecret(PREFIX, chance);
    const now = clock.now();
    const share: RecordedShare = {
      id: newId('share', chance),
      projectId,
      sandboxId,
      port: input.port,
      name: input.name ?? null,
      sha256: digestOf(token),
      createdBy: caller.principal.apiKeyId,
      createdAt: new Date(now),
      expiresAt: new Date(now + input.expiresInMs),
    };
    await records.shares.add(share, MAX_SHARES);
    return { ...viewShare(share), token };
  }

  async listShares(caller: GatedCaller, input: Input<'listShares'>): Promise<ShareList> {
    const { id } = await this.#sandboxes.find(caller, input.id);
    const { clock, records } = this.#ports;
    return { shares: (await records.shares.list(id, new Date(clock.now()))).map(viewShare) };
  }

  async revokeShare(caller: GatedCaller, { id, shareId }: Input<'revokeShare'>): Promise<void> {
    const sandbox = await this.#sandboxes.find(caller, id);
    const { clock, records } = this.#ports;
    if (!(await records.shares.remove(sandbox.id, shareId, new Date(clock.now())))) {
      throw new AppError('not_found', `There is no share "${shareId}".`);
    }
    this.#onRevoked(shareId);
  }

  /** Null: the token is none of ours, is not for this port, or is no longer good. Nobody learns which. */
  async find(token: string, { sandboxId, port }: SharedPort): Promise<RecordedShare | null> {
    if (!isSecret(PREFIX, token)) return null;
    const share = await this.#ports.records.shares.findByDigest(digestOf(token));
    if (share?.sandboxId !== sandboxId || share.port !== port) return null;
    return share.expiresAt.getTime() > this.#ports.clock.now() ? share : null;
  }
}

function viewShare(share: RecordedShare): Share {
  const { id, sandboxId: sandbox, port, name, createdBy, createdAt, expiresAt } = share;
  return {
    id,
    sandbox,
    port,
    name,
    createdBy,
    createdAt: createdAt.toISOString(),
    expiresAt: expiresAt.toISOString(),
  };
}
