/** Names of secrets and their bindings in memory, for tests. */
import {
  AppError,
  MAX_BINDINGS,
  MAX_SECRETS,
  type NamedSecret,
  type OrganisationId,
  type SecretBinding,
} from '@space/core';
import type { RecordedBinding, RecordedSecret, SecretRecords } from '../src/secret-records.ts';

export class MemorySecrets implements SecretRecords {
  readonly #turn: () => Promise<void>;
  readonly #secrets = new Map<string, RecordedSecret>();
  readonly #bindings = new Map<string, RecordedBinding>();

  constructor(turn: () => Promise<void>) {
    this.#turn = turn;
  }

  async list(organisationId: OrganisationId) {
    await this.#turn();
    return ownOf(this.#secrets, organisationId);
  }

  async put(organisationId: OrganisationId, { name, source }: Pick<NamedSecret, 'name' | 'source'>, at: Date) {
    await this.#turn();
    const before = this.#secrets.get(`${organisationId} ${name}`);
    if (before === undefined) checkCount(this.#secrets, organisationId, MAX_SECRETS);
    const version = (before?.version ?? 0) + 1;
    const put = { name, source, version, createdAt: before?.createdAt ?? at, updatedAt: at };
    this.#secrets.set(`${organisationId} ${name}`, put);
    return put;
  }

  async remove(organisationId: OrganisationId, name: string) {
    await this.#turn();
    for (const [key, { secret }] of this.#bindings) {
      if (secret === name && key.startsWith(`${organisationId} `)) this.#bindings.delete(key);
    }
    return this.#secrets.delete(`${organisationId} ${name}`);
  }

  async bindings(organisationId: OrganisationId) {
    await this.#turn();
    return ownOf(this.#bindings, organisationId);
  }

  async putBinding(organisationId: OrganisationId, binding: SecretBinding, at: Date) {
    await this.#turn();
    if (!this.#secrets.has(`${organisationId} ${binding.secret}`)) return null;
    const before = this.#bindings.get(`${organisationId} ${binding.name}`);
    if (before === undefined) checkCount(this.#bindings, organisationId, MAX_BINDINGS);
    const put = { ...binding, createdAt: before?.createdAt ?? at, updatedAt: at };
    this.#bindings.set(`${organisationId} ${binding.name}`, put);
    return put;
  }

  async removeBinding(organisationId: OrganisationId, name: string) {
    await this.#turn();
    return this.#bindings.delete(`${organisationId} ${name}`);
  }
}

function ownOf<T extends { readonly name: string }>(all: ReadonlyMap<string, T>, organisationId: OrganisationId): T[] {
  const own = [...all].filter(([key]) => key.startsWith(`${organisationId} `)).map(([, one]) => one);
  return own.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function checkCount(all: ReadonlyMap<string, { readonly name: string }>, organisationId: OrganisationId, max: number) {
  if (ownOf(all, organisationId).length < max) return;
  throw new AppError('limit_reached', { detail: `An organisation may have ${max} of these.`, facts: { max } });
}
