/**
 * How who builds a template brings one archive here without the API key: by a link, which is good for one hash, for an hour, and for
 * as long as the key is. It is signed with the digest that is kept of the key, so nothing has to be kept of it, and who knows the link
 * knows nothing of the key.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Caller } from '@space/contract';
import { AppError, authorise, type ProjectId, parseId } from '@space/core';
import { type Identity, identityOf } from './api-keys.ts';
import type { ControlPorts } from './ports.ts';

const LASTS_MS = 60 * 60 * 1000;
const TICKET = /^(key_[0-9a-z]{16})\.(prj_[0-9a-z]{16})\.([0-9a-f]{64})\.([0-9]{1,16})\.([A-Za-z0-9_-]{43})$/;

export interface Redeemed {
  readonly identity: Identity;
  readonly hash: string;
}

export class UploadTickets {
  readonly #ports: Pick<ControlPorts, 'records' | 'clock'>;

  constructor(ports: Pick<ControlPorts, 'records' | 'clock'>) {
    this.#ports = ports;
  }

  /** Throws `forbidden` to who may not build. */
  async ticketFor({ principal, projectId }: Pick<Caller, 'principal' | 'projectId'>, hash: string): Promise<string> {
    const resource = { kind: 'project', organisationId: principal.organisationId, projectId } as const;
    const holder = await this.#ports.records.tenants.findKeyHolderById(principal.apiKeyId);
    if (holder === null || !authorise(principal, 'template.build', resource).allowed) {
      throw new AppError('forbidden', 'The key may not build templates here.');
    }
    const fields = [principal.apiKeyId, projectId, hash, `${this.#ports.clock.now() + LASTS_MS}`].join('.');
    return `${fields}.${signed(fields, holder.key.sha256)}`;
  }

  /** Null: it is none, or no longer good. */
  async redeem(ticket: string): Promise<Redeemed | null> {
    const [, key = '', project = '', hash = '', until = '', signature = ''] = TICKET.exec(ticket) ?? [];
    const [keyId, projectId] = [parseId('apiKey', key), parseId('project', project)];
    if (keyId === undefined || projectId === undefined) return null;
    const { tenants } = this.#ports.records;
    const holder = await tenants.findKeyHolderById(keyId);
    if (holder === null || Number(until) < this.#ports.clock.now()) return null;
    const expected = signed([key, project, hash, until].join('.'), holder.key.sha256);
    if (!timingSafeEqual(Buffer.from(signature), Buffer.from(expected))) return null;
    const identity = identityOf(holder, projectId);
    return (await this.#reaches(identity, projectId)) ? { identity, hash } : null;
  }

  async #reaches({ principal }: Identity, projectId: ProjectId): Promise<boolean> {
    const owner = await this.#ports.records.tenants.organisationOf(projectId);
    return (
      owner === principal.organisationId && (principal.onlyProject === null || principal.onlyProject === projectId)
    );
  }
}

function signed(fields: string, digest: Uint8Array): string {
  return createHmac('sha256', digest).update(`template file ${fields}`).digest('base64url');
}
